"""Runs the pipeline next to this file with `spark-pipelines`.

    python examples/declarative_pipeline/run.py [URL] [WORK]

WORK keeps the tables, the catalog and the checkpoints across runs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from mainstem.pipeline.spark.session import SQL_CONFS, prepare_environment

HERE = Path(__file__).parent


def main() -> int:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4437"
    work = Path(sys.argv[2] if len(sys.argv) > 2 else "./declarative-pipeline").resolve()
    work.mkdir(parents=True, exist_ok=True)
    prepare_environment()
    # The specification can only name files next to it, and storage must be an absolute URI.
    shutil.copytree(HERE / "transformations", work / "transformations", dirs_exist_ok=True)
    specification = work / "spark-pipeline.yml"
    specification.write_text(f"{(HERE / 'spark-pipeline.yml').read_text()}storage: {(work / 'storage').as_uri()}\n")
    settings = SQL_CONFS | {
        "spark.ui.enabled": "false",
        # A later run must find the tables of an earlier one, so the catalog has to be on disk.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={work / 'catalog'};create=true",
    }
    # The Spark Connect server that `spark-pipelines` starts ignores command-line settings, but reads this file.
    (work / "conf").mkdir(exist_ok=True)
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    (work / "conf" / "spark-defaults.conf").write_text(lines)
    environment = os.environ | {"MAINSTEM_URL": url, "MAINSTEM_WORK": str(work), "SPARK_CONF_DIR": str(work / "conf")}
    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    command = [str(program), "run", "--remote", "local[2]", "--spec", str(specification)]
    done = subprocess.run(
        command, env=environment, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout)
    # Spark 4.3.0 exits with an error after a run with a Python sink, although every flow has completed.
    completed = "Run is COMPLETED" in done.stdout
    return 0 if completed else done.returncode or 1


if __name__ == "__main__":
    sys.exit(main())
