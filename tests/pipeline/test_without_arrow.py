"""A server that was installed without Arrow: its log is read as NDJSON, with one warning and the same rows."""

from pathlib import Path

import pyarrow as pa
import pytest

from mainstem import limits
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.log_reader import Selection, read_range
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.pipeline.start_checks import warn_without_arrow
from mainstem.testing.server import ServerProcess, start_process

WITHOUT_ARROW = 'import sys\nsys.modules["pyarrow"] = None\n'


@pytest.fixture
def bare_server(tmp_path: Path):
    """A server in whose processes Arrow cannot be imported."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_ARROW)
    source = Path(limits.__file__).parents[1]
    server = ServerProcess(tmp_path / "data", environment={"PYTHONPATH": f"{tmp_path / 'site'}:{source}"})
    server.launch = start_process
    with server:
        yield server


def test_rows_are_the_same_as_with_arrow(spark, bare_server, open_log, tmp_path, caplog):
    log = open_log(bare_server.url)
    log.fill(streams=2, messages=40, partitions=2, events=5)
    log.append_bytes("bytes", b"\xff\x00\n")
    log.append_bytes("text", "grüß\r\n".encode(), "text/plain")
    head = log.head_id()
    assert log.http.get("/v1/whoami").json()["arrow"] is False
    server = ServerOptions(bare_server.url)

    def read(columns: tuple[str, ...]) -> pa.Table:
        return pa.Table.from_batches(list(read_range(server, Selection(), columns, 0, head, 2_000)))

    tables = [read(tuple(LOG_COLUMNS)), read(("committed_id", "data"))]

    frame = spark.read.format("mainstem").option("url", bare_server.url).option("minPartitions", 4).load()
    assert frame.count() == tables[0].num_rows

    notes: list[str] = []
    context = JobContext(server, tmp_path / "checkpoint", master="local[2]", on_wait=notes.append)
    for format_ in ("parquet", "delta"):
        for _ in range(2):
            run_once(make_export(str(tmp_path / format_), ExportOptions(format_)), context)
    assert run_once(make_audit(AuditOptions()), context).faults == 0
    assert len(notes) == 1, notes
    assert "installed without Arrow" in notes[0]

    for _ in range(2):
        warn_without_arrow(server)  # as the planner of a query does
    assert [record.getMessage() for record in caplog.records if record.name == warn_without_arrow.__module__] == notes

    bare_server.terminate()
    with ServerProcess(bare_server.data) as full:
        server = ServerOptions(full.url)
        assert [table.num_rows for table in tables] == [92, 92]
        assert read(tuple(LOG_COLUMNS)).combine_chunks().equals(tables[0].combine_chunks())
        assert read(("committed_id", "data")).combine_chunks().equals(tables[1].combine_chunks())
        assert read(tuple(LOG_COLUMNS)).schema == tables[0].schema
