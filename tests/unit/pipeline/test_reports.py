"""Reports are sent once, and never disturb the job."""

import socket
import threading
import time

import pytest

from mainstem import limits
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.reports import ReportSender, RoundReport, clean_text, hide_credentials, make_job_name

REPORT = RoundReport(job="archive", name="main", started_at="2026-05-01T00:00:00Z", duration_s=1.5, rows=3)


@pytest.fixture
def warnings():
    return []


def make_sender(url, warnings, **options):
    return ReportSender(ServerOptions(url, **options), warnings.append)


def test_a_report_arrives(start_thread, connect_to, warnings):
    server = start_thread()
    assert make_sender(server.url, warnings, retry_s=600).send(REPORT)
    [found] = connect_to(server).get("/v1/jobs").json()["jobs"]
    assert (found["job"], found["name"], found["round"], found["rows"]) == ("archive", "main", 1, 3)
    assert warnings == []


def test_a_server_that_is_away_costs_one_warning_until_it_is_back(start_thread, warnings, tmp_path):
    server = start_thread(data=str(tmp_path / "data"))
    port = int(server.url.rpartition(":")[2])
    sender = make_sender(server.url, warnings)
    server.stop()
    assert not sender.send(REPORT)
    assert not sender.send(REPORT)
    assert len(warnings) == 1
    assert "this round of main was not reported" in warnings[0]
    assert "connection refused" in warnings[0]
    again = start_thread(data=str(tmp_path / "data"), port=port)
    assert sender.send(REPORT)
    again.stop()
    assert not sender.send(REPORT)
    assert len(warnings) == 2


def test_a_server_that_does_not_reply_delays_the_job_only_briefly(monkeypatch, warnings):
    monkeypatch.setattr(limits, "JOB_REPORT_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun_s = time.monotonic()
        assert not make_sender(f"http://127.0.0.1:{silent.getsockname()[1]}", warnings, retry_s=600).send(REPORT)
        assert time.monotonic() - begun_s < 10
    assert "no reply in time" in warnings[0]


def test_a_server_that_ends_during_the_report_is_no_error(warnings):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def end() -> None:
            connection, _ = listener.accept()
            connection.recv(65_536)
            connection.close()

        thread = threading.Thread(target=end)
        thread.start()
        assert not make_sender(f"http://127.0.0.1:{listener.getsockname()[1]}", warnings, retry_s=600).send(REPORT)
        thread.join()
    assert "the connection broke" in warnings[0]


def test_an_older_server_is_named_as_such(start_thread, warnings):
    server = start_thread()
    assert not make_sender(server.url + "/elsewhere", warnings).send(REPORT)
    assert warnings == ["this round of main was not reported: the server is too old to take reports"]


def test_a_refused_token_is_a_warning(start_thread, warnings, tmp_path):
    (tmp_path / "secret").write_text("s" * 64)
    server = start_thread(jwt_secret_file=str(tmp_path / "secret"))
    assert not make_sender(server.url, warnings, token="wrong").send(REPORT)
    assert "401" in warnings[0]
    missing = make_sender(server.url, warnings, token_file=str(tmp_path / "missing"))
    assert not missing.send(REPORT)
    assert "cannot read the token" in warnings[1]


def test_details_that_are_too_large_are_left_out(start_thread, connect_to, warnings):
    server = start_thread()
    large = RoundReport(
        job="audit", name="a", started_at="2026-05-01T00:00:00Z", duration_s=1, details={"x": "y" * 20_000}
    )
    assert make_sender(server.url, warnings).send(large)
    [found] = connect_to(server).get("/v1/jobs").json()["jobs"]
    assert found["details"] == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("archive", "archive"),
        ("My Query: 7", "my-query-7"),
        ("..hidden", "hidden"),
        ("Übersicht", "bersicht"),
        ("a" * 80, "a" * 64),
        ("a" * 63 + "-b", "a" * 63),
        ("", "otherwise"),
        ("日本", "otherwise"),
        ("-._", "otherwise"),
        ("a\nb/c", "a-b-c"),
    ],
)
def test_any_text_becomes_a_name(text, name):
    assert make_job_name(text, otherwise="otherwise") == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/lake/log", "/lake/log"),
        ("/lake/what?/log#1", "/lake/what?/log#1"),
        ("s3://bucket/log", "s3://bucket/log"),
        ("s3://key:secret@bucket/log", "s3://bucket/log"),
        ("abfss://container@account.dfs.core.windows.net/log", "abfss://container@account.dfs.core.windows.net/log"),
        ("https://account/log?sv=1&sig=secret", "https://account/log"),
        ("cannot read s3://k:s@b/log?x=1, or gs://b/log", "cannot read s3://b/log, or gs://b/log"),
    ],
)
def test_credentials_are_hidden(text, shown):
    assert hide_credentials(text) == shown


def test_a_text_is_bounded_and_valid():
    assert len(clean_text("x" * 5_000)) == limits.JOB_REASON_CHARS_MAX
    assert clean_text("a\udcffb") == "a?b"
