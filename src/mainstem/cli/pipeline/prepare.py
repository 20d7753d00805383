"""`mainstem pipeline prepare`."""

import time

import click

from mainstem.cli.failures import is_verbose
from mainstem.cli.options import common
from mainstem.cli.pipeline.runner import silence_spark
from mainstem.cli.pipeline.summaries import write_summary


@click.command()
@common
def prepare(as_json: bool) -> None:
    """Make every later start of a local Spark about twice as fast.

    Writes Spark's classes into a file in the cache directory (about 190 MB), which Java maps into memory. This takes
    half a minute. Run it again after you install another Java or Spark.
    """
    from mainstem.pipeline.spark.prepare import make_class_archive

    begun_s = time.monotonic()
    with silence_spark(not is_verbose(click.get_current_context())):
        archive = make_class_archive()
    seconds = round(time.monotonic() - begun_s, 1)
    write_summary({"archive": str(archive), "bytes": archive.stat().st_size, "seconds": seconds}, as_json)
