"""Spark Connect: the client has no JVM, and the server is the driver of the cluster."""

import json

from tests.cluster.test_jobs import POLICY
from tests.support.spark_cluster import ConnectServer


def test_source_sink_and_jobs_through_spark_connect(cluster, machines, drive, start_server, open_log, tmp_path):
    log = open_log(start_server().url)
    rows = log.fill(streams=2, messages=1_000, partitions=1, events=50)
    log.append("in", [{"n": number} for number in range(1_000)], at_once=50)
    (tmp_path / "retention.toml").write_text(POLICY)
    server = ConnectServer(cluster.url, tmp_path, machines, {})
    try:
        plan = {
            "master": server.url,
            "url": log.url,
            "reading": {},
            "writing": {},
            "checkpoint": str(tmp_path / "query"),
        }

        def job(name, *arguments):
            checkpoint = tmp_path / "checkpoints" / name
            return [
                name,
                *map(str, arguments),
                "--url",
                log.url,
                "--master",
                server.url,
                "--checkpoint",
                str(checkpoint),
            ]

        archive, files = tmp_path / "archive", tmp_path / "files"
        jobs = [
            job("archive", archive),
            job("export", files, "--stream", "orders/*", "--schema", "n INT", "--engine", "spark"),
            job("import", files, "--stream", "copy", "--value-column", "data", "--engine", "spark"),
            job("snapshot", "lww", "--partitions", "room-*", "--key", "n"),
            job("retain", tmp_path / "retention.toml"),
            job("rollup", "--into", "counts", "--streams", "orders/*", "--window", "1s", "--lateness", "0s"),
            job("archive", archive),
            job("audit", "--archive", archive),
        ]
        done = drive(plan | {"jobs": jobs}).summaries()
    finally:
        server.stop()
    assert sorted(row["n"] for row in log.read("out")) == list(range(1_000))
    archived, exported, imported, folded, _, counted, _, audited = done
    assert archived["rows"] >= rows
    assert exported["rows"] == imported["rows"] == len(log.read("copy")) == 2_000
    assert folded["partitions"] == 1
    assert counted["rows"] >= 2_000
    assert (audited["faults"], audited["archived"] >= rows) == (0, True), json.dumps(audited)
