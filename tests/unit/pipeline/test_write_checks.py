"""Whether a job can write where it should."""

import socket
from pathlib import Path

import pytest

from mainstem.errors import LocationNotWritable
from mainstem.pipeline.write_checks import check_writable


def test_a_directory_is_left_as_it_was(tmp_path: Path):
    check_writable(str(tmp_path))
    check_writable(str(tmp_path / "new" / "folder"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    for location in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LocationNotWritable, match=f"{tmp_path / 'file'} is a file.*Choose another location"):
            check_writable(str(location))


def test_an_object_store_that_is_away_is_reported_in_time(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(LocationNotWritable, match=r"took no file within 0.2 s") as error:
            check_writable(f"s3://bucket/lake?endpoint_override={address}&scheme=http&region=eu", wait_s=0.2)
    assert "secret" not in str(error.value)


def test_an_object_store_keeps_no_file(monkeypatch):
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "{}:{}".format(*server.get_host_and_port())
        store = boto3.client("s3", endpoint_url=f"http://{address}", region_name="us-east-1")
        store.create_bucket(Bucket="lake")
        where = f"?endpoint_override={address}&scheme=http&region=us-east-1"
        check_writable(f"s3://lake/table{where}", wait_s=20)
        found = store.list_objects_v2(Bucket="lake").get("Contents", [])
        assert [one["Key"] for one in found if one["Size"]] == []  # Arrow marks the directory with an empty object
        with pytest.raises(LocationNotWritable, match="cannot write into s3://missing/table"):
            check_writable(f"s3://missing/table{where}", wait_s=20)
    finally:
        server.stop()
