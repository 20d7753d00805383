"""The declarative pipeline and Spark Connect work as the guide says."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from mainstem.pipeline.spark.java import find_java
from tests.support.waits import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def test_the_declarative_pipeline_runs_again_and_again(start_server, open_log, tmp_path, java_options):
    """Each run processes what is new, and appends each large order once."""
    log = open_log(start_server().url)
    program = ROOT / "examples" / "declarative_pipeline" / "run.py"
    changes = [
        [{"customer": "a", "name": "Ada"}, {"customer": "b", "name": "Bo"}, {"customer": "a", "name": "Ada L."}],
        [{"customer": "b", "deleted": True}, {"customer": "c", "name": "Cy"}],
    ]
    for total, changed in zip((50, 60), changes, strict=True):
        log.append("shop/customers", changed)
        log.append(
            "shop/orders", [{"item": "tea", "cents": 600 + number} for number in range(total - 50, total + 50)][:100]
        )
        done = subprocess.run(
            [sys.executable, str(program), log.url, str(tmp_path / "work")],
            env=os.environ | java_options,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    found = [row["cents"] for row in log.read("shop/large-orders")]
    assert sorted(found) == sorted([*range(650, 700), *range(650, 710)])
    customers = pq.read_table(tmp_path / "work" / "warehouse" / "customers").to_pylist()
    assert sorted((one["customer"], one["name"]) for one in customers) == [("a", "Ada L."), ("c", "Cy")]


CONNECT = """
import sys
from mainstem.pipeline import session
from tests.support.waits import eventually

url, folder, port = sys.argv[1:]
spark = session("connect", f"sc://localhost:{port}")
read = spark.read.format("mainstem").option("url", url)
frame = read.option("schema", "n INT").load("in").filter("n >= 10").select("n")
frame.write.format("mainstem").mode("append").option("url", url).option("stream", "out") \\
    .option("stagingLocation", folder).save()
live = spark.readStream.format("mainstem").option("url", url).option("schema", "n INT").load("in").select("n")
query = live.writeStream.format("mainstem").option("url", url).option("stream", "all") \\
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print("read", read.load("in,out,all").count(), spark.conf.get("spark.sql.session.timeZone"))
"""


@pytest.fixture
def connect_port(tmp_path, java_options) -> Iterator[str]:
    """A Spark Connect server, as another team would run it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = {"spark.ui.enabled": "false", "spark.connect.grpc.binding.port": port, "spark.log.level": "INFO"}
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    kind = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    server = subprocess.Popen(
        [str(program), "--master", "local[2]", *confs, *kind],
        env=os.environ | java_options | {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(port))) == 0

    try:
        eventually(lambda: listens() or server.poll() is not None, within_s=100)
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def test_spark_connect_finds_the_format_automatically(connect_port, start_server, open_log, tmp_path):
    log = open_log(start_server().url)
    log.append("in", [{"n": number} for number in range(100)])
    command = [sys.executable, "-c", CONNECT, log.url, str(tmp_path), connect_port]
    client = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert "read 290 UTC" in client.stdout, client.stderr[-3_000:]
    assert sorted(row["n"] for row in log.read("all")) == list(range(100))
