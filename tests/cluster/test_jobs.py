"""Every job on a cluster without a shared lake: archive, exports, imports and staged rows are on an object store."""

import json
import zipfile
from pathlib import Path

import mainstem
from tests.support.object_stores import KEY_ID, SECRET
from tests.support.waits import eventually

POLICY = """
[[policy]]
name = "rooms"
partitions = "room-*"
max_events = 10
require_snapshot = true
"""


def pack_code(folder):
    """Return a zip of the packages, which Spark sends to the executors."""
    source = Path(mainstem.__file__).parents[1]
    with zipfile.ZipFile(folder / "mainstem.zip", "w") as packed:
        for package in ("mainstem", "pyspark_mainstem"):
            for file in (source / package).rglob("*.py"):
                packed.write(file, file.relative_to(source))
    return str(folder / "mainstem.zip")


def test_every_job_on_a_cluster(cluster, objects, drive, start_server, open_log, tmp_path):
    log = open_log(start_server().url)
    rows = log.fill(streams=2, messages=1_000, partitions=2, events=50)
    (tmp_path / "retention.toml").write_text(POLICY)
    bucket = objects.make_bucket()

    def job(name, *arguments):
        checkpoint = tmp_path / "checkpoints" / name
        fixed = ("--url", log.url, "--master", cluster.url, "--checkpoint", str(checkpoint))
        return [name, *map(str, arguments), *fixed]

    archive, lines, table = f"{bucket}/archive", f"{bucket}/lines", f"{bucket}/table"
    staged = ("--staging", f"{bucket}/staging")
    jobs = [
        job("archive", archive),
        job("export", lines, "--format", "ndjson", "--messages", "--stream", "orders/*", "--engine", "spark"),
        job("export", table, "--format", "delta", "--stream", "orders/*", "--engine", "spark"),
        job("import", lines, "--format", "ndjson", "--stream", "copy/lines", *staged, "--engine", "spark"),
        job("import", table, "--stream", "copy/table", "--value-column", "data", *staged, "--engine", "spark"),
        job("import", lines, "--format", "ndjson", "--stream", "copy/lines", *staged, "--engine", "spark"),
        job("snapshot", "lww", "--partitions", "room-*", "--key", "n"),
        job("retain", tmp_path / "retention.toml"),
        job("rollup", "--into", "counts", "--streams", "orders/*", "--window", "1s", "--lateness", "0s"),
        job("archive", archive),
        job("audit", "--archive", archive),
    ]
    driver = drive({"where": cluster.url, "jobs": jobs}, "--py-files", pack_code(tmp_path))
    code, *done = driver.summaries()
    assert all(".zip" in path for path in code["mainstem"]), "the executors use another copy of the code"
    archived, *copied, folded, retained, counted, archived_again, audited = done
    assert archived["rows"] >= rows
    assert {one["engine"] for one in copied} == {"spark"}
    assert [one["rows"] for one in copied] == [2_000, 2_000, 2_000, 2_000, 0]
    expected = sorted(json.dumps(row) for number in range(2) for row in log.read(f"orders/{number}"))
    for copy in ("copy/lines", "copy/table"):
        assert sorted(json.dumps(row) for row in log.read(copy)) == expected
    assert folded["partitions"] == 2
    assert retained["faults"] == 0
    eventually(lambda: log.head()["pruned"] > 0)
    assert counted["rows"] >= 2_000
    assert archived_again["committed_id"] > archived["committed_id"]
    assert (audited["faults"], audited["archived"] >= rows) == (0, True), audited
    logs = cluster.read_logs()
    assert any(name.startswith("executor") and text for name, text in logs.items())
    said = {"driver": driver.ending, "reports": json.dumps(log.rows(stream="_mainstem/jobs")), **logs}
    assert [name for name, text in said.items() if SECRET in text or KEY_ID in text] == []
