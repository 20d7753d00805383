"""`mainstem pipeline prepare`."""

import time

import click

from mainstem.cli.failures import is_verbose
from mainstem.cli.options import common
from mainstem.cli.output import write_facts
from mainstem.cli.pipeline.runner import silence_spark


@click.command()
@common
def prepare(as_json: bool) -> None:
    """Make every later start of a local Spark twice as fast.

    It keeps Spark's classes in a file that Java maps, about 190 MB in the cache folder. It takes half a minute, once,
    and again after another Java or Spark was installed.
    """
    from mainstem.pipeline.spark.prepare import make_class_archive

    begun_s = time.monotonic()
    with silence_spark(not is_verbose(click.get_current_context())):
        archive = make_class_archive()
    seconds = round(time.monotonic() - begun_s, 1)
    write_facts({"archive": str(archive), "bytes": archive.stat().st_size, "seconds": seconds}, as_json)
