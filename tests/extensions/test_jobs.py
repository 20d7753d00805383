"""The rounds that jobs report: the list of the last ones, and the stream of all."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem import limits
from mainstem.testing.clock import FakeClock
from tests.support.issuers import bearer, write_secret

JOBS = "/v1/jobs"
STREAM = "/v1/stream/_mainstem/jobs"
TEXT = {"content-type": "text/plain"}
ROUND = {
    "job": "archive",
    "name": "main",
    "round": 1,
    "started_at": "2026-05-01T00:00:00Z",
    "duration_s": 1.5,
    "rows": 10,
    "bytes": 200,
    "position": 0,
    "lag": 0,
    "faults": 0,
    "error": None,
    "details": {"table": "/lake/log", "version": 3, "files": 2, "bytes": 5_000},
}


@pytest.fixture
def client(start_thread, connect_to):
    """A server of its own for each test: all of them share one list of jobs."""
    return connect_to(start_thread())


def report(client, **fields):
    reply = client.post(JOBS, json=ROUND | fields)
    assert reply.status_code == 204, reply.text


def last(client):
    return client.get(JOBS).raise_for_status().json()["jobs"]


def history(client):
    reply = client.get(STREAM)
    return [] if reply.status_code == 404 else reply.raise_for_status().json()


def head(client):
    return client.get("/v1/log/head").json()["head"]


def write(client, path="data"):
    """Commit one message, and return its committed id."""
    assert client.put(f"/v1/stream/{path}", headers=TEXT).status_code in (200, 201)
    assert client.post(f"/v1/stream/{path}", headers=TEXT, content=b"x").status_code == 204
    return head(client)


# Reports


def test_a_report_is_in_the_list_and_in_the_stream(client):
    assert (last(client), history(client)) == ([], [])
    report(client)
    [found] = last(client)
    assert found.pop("reported_at").endswith("Z")
    assert found == ROUND
    assert [message | {"reported_at": ""} for message in history(client)] == [ROUND | {"reported_at": ""}]
    about = client.head(STREAM).headers
    assert about["content-type"] == "application/json"
    assert about["stream-retention"] == f"max-age={limits.JOB_KEPT_S}, max-messages={limits.JOB_ROUNDS_KEPT}"


def test_the_list_has_the_last_round_of_each_kind_and_name(client):
    report(client, name="b", position=write(client))
    report(client, name="a", job="audit")
    report(client, name="b", round=2, position=write(client), rows=11)
    report(client, name="b", job="query")
    found = [(one["job"], one["name"], one["round"]) for one in last(client)]
    assert found == [("archive", "b", 2), ("audit", "a", 1), ("query", "b", 1)]
    assert [one["round"] for one in history(client)] == [1, 1, 2, 1]


def test_a_minimal_report_is_completed(client):
    minimal = {name: ROUND[name] for name in ("job", "name", "started_at", "duration_s")}
    write(client)
    assert client.post(JOBS, json=minimal).status_code == 204
    [found] = last(client)
    assert found["round"] == 1
    assert (found["rows"], found["bytes"], found["faults"], found["error"], found["details"]) == (0, 0, 0, None, {})
    assert (found["position"], found["lag"]) == (0, 2)


def test_a_failed_round_keeps_the_position_of_the_round_before(client):
    reached = write(client)
    report(client, position=reached)
    write(client)
    report(client, round=None, position=None, lag=None, rows=0, error="Spark stopped the job: no memory")
    [found] = last(client)
    assert found["round"] == 2
    assert (found["error"], found["position"]) == ("Spark stopped the job: no memory", reached)
    assert found["lag"] == head(client) - 1 - reached  # the report itself came later


# Echoes


def test_jobs_that_read_only_reports_do_not_keep_each_other_busy(client):
    names = ("archive", "rollup", "query")
    reached = write(client)
    for name in names:
        report(client, job=name, position=reached)
    before = head(client)
    for number in range(2, 5):
        for name in names:
            report(client, job=name, round=number, position=head(client), rows=number)
    assert head(client) == before
    assert [one["round"] for one in last(client)] == [4, 4, 4]
    assert len(history(client)) == len(names)


def test_a_round_that_has_read_data_is_appended(client):
    report(client, position=write(client))
    report(client, round=2, position=write(client))
    assert [one["round"] for one in history(client)] == [1, 2]


def test_a_round_through_a_backlog_is_appended_although_the_log_does_not_grow(client):
    first, second = write(client), write(client)
    report(client, position=first)
    report(client, round=2, position=second)
    report(client, round=3, position=second)  # it has found nothing
    assert [one["round"] for one in history(client)] == [1, 2]


def test_a_job_that_begins_again_is_appended(client):
    report(client, position=write(client))
    report(client, round=2, position=0)
    assert [one["round"] for one in history(client)] == [1, 2]


@pytest.mark.parametrize("trouble", [{"error": "broken"}, {"faults": 2}])
def test_trouble_and_its_end_are_appended(client, trouble):
    report(client)
    for number, fields in enumerate([trouble, trouble, {}, {}], start=2):
        report(client, round=number, **fields)
    assert [one["round"] for one in history(client)] == [1, 2, 3, 4]


@pytest.mark.parametrize("job", ["retain", "import"])
def test_jobs_that_do_not_follow_the_log_are_appended_if_they_have_done_something(client, job):
    report(client, job=job)
    report(client, job=job, round=2)
    report(client, job=job, round=3, rows=0)
    assert [one["round"] for one in history(client)] == [1, 2]


def test_a_query_without_a_position_is_appended_if_it_has_rows(client):
    report(client, job="query", position=None)
    report(client, job="query", round=2, position=None)
    report(client, job="query", round=3, position=None, rows=0)
    assert [one["round"] for one in history(client)] == [1, 2]


def test_deleting_the_stream_forgets_its_history_only(client):
    report(client, position=write(client))
    assert client.delete(STREAM).status_code == 204
    assert len(last(client)) == 1
    report(client, round=2, position=write(client))
    assert [one["round"] for one in history(client)] == [2]


# Restarts, and many jobs


def test_the_list_survives_a_kill(start_server, connect_to):
    server = start_server()
    client = connect_to(server)
    report(client)
    report(client, round=2, rows=0)  # in the list only
    found = last(client)
    server.kill()
    server.start()
    assert last(connect_to(server)) == found
    assert found[0]["round"] == 2


def test_the_job_that_was_silent_longest_makes_room(client):
    for number in range(limits.JOBS_MAX):
        report(client, name=f"n{number:03d}")
    report(client, name="n000", round=2, position=write(client))
    report(client, name="another")
    names = [one["name"] for one in last(client)]
    assert len(names) == limits.JOBS_MAX
    assert "n001" not in names
    assert {"n000", "n002", "another"} <= set(names)


def test_many_reports_at_once_do_not_exceed_the_table(client):
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: client.post(JOBS, json=ROUND | {"name": f"n{n}"}).status_code, range(140)))
    assert set(replies) == {204}
    assert len(last(client)) == limits.JOBS_MAX


def test_a_job_that_is_silent_for_a_month_is_forgotten(start_thread, connect_to):
    clock = FakeClock()
    client = connect_to(start_thread(clock_us=clock))
    report(client, name="old")
    clock.advance(limits.JOB_KEPT_S + 1)
    report(client, name="new")
    assert [one["name"] for one in last(client)] == ["new"]


# Bad input


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"job": "vacuum"}, "job"),
        ({"job": None}, "job"),
        ({"name": ""}, "name"),
        ({"name": "Main"}, "name"),
        ({"name": "-main"}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "<script>"}, "name"),
        ({"name": "\u202ea"}, "name"),
        ({"round": -1}, "round"),
        ({"round": 1.5}, "round"),
        ({"round": 2**53}, "round"),
        ({"rows": 2**70}, "rows"),
        ({"rows": "1"}, "rows"),
        ({"rows": True}, "rows"),
        ({"position": -1}, "position"),
        ({"lag": []}, "lag"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"started_at": "2026-05-01T00:00:00"}, "started_at"),
        ({"started_at": 5}, "started_at"),
        ({"duration_s": -0.1}, "duration_s"),
        ({"duration_s": None}, "duration_s"),
        ({"error": "x" * 1001}, "error"),
        ({"error": {}}, "error"),
        ({"details": []}, "details"),
        ({"details": None}, "details"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_field_is_named(client, fields, reason):
    reply = client.post(JOBS, json=ROUND | fields)
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert reply.json()["detail"].startswith(reason)
    assert (last(client), history(client)) == ([], [])


VALID = json.dumps(ROUND).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"[%b]" % VALID,
        VALID[:-1],
        VALID + b"x",
        b"\xff" + VALID,
        VALID.replace(b"main", b"\xff"),
        VALID.replace(b"1.5", b"1e999"),
        VALID.replace(b"1.5", b"NaN"),
        VALID.replace(b'"round": 1', b'"round": 1' + b"0" * 5000),
        VALID.replace(b'"files": 2', b'"files": ' + b"[" * 600 + b"]" * 600),
        VALID.replace(b'"files": 2', b'"files": ' + b"[" * 7000 + b"]" * 7000),
    ],
    ids=str,
)
def test_a_hostile_body_is_refused(client, body):
    reply = client.post(JOBS, content=body)
    assert reply.status_code == 400, reply.text
    assert reply.json()["code"] in ("bad_request", "invalid_json")
    assert (last(client), history(client)) == ([], [])


def test_a_report_that_is_too_large_is_refused(client):
    reply = client.post(JOBS, json=ROUND | {"details": {"text": "x" * limits.JOB_REPORT_BYTES_MAX}})
    assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")
    assert last(client) == []


def test_hostile_text_is_returned_as_it_came(client):
    hostile = {"error": "<script>alert(1)</script>\u202e\x00\ud7ff\U0001f4a3", "details": {"\u202e": "\x1b[31m"}}
    report(client, **hostile)
    for [found] in (last(client), history(client)):
        assert {name: found[name] for name in hostile} == hostile


# A stream that somebody else has made


def test_a_stream_of_another_type_is_an_error_until_it_is_deleted(client):
    assert client.put(STREAM, headers=TEXT, content=b"mine").status_code == 201
    reply = client.post(JOBS, json=ROUND)
    assert (reply.status_code, reply.json()["code"]) == (409, "jobs_stream_unusable")
    assert "text/plain" in reply.json()["detail"]
    assert "Delete the stream _mainstem/jobs" in reply.json()["hint"]
    assert last(client) == []
    assert client.get(STREAM).text == "mine"
    assert client.delete(STREAM).status_code == 204
    report(client)
    assert len(history(client)) == 1


def test_a_closed_stream_is_an_error_until_it_is_deleted(client):
    report(client, position=write(client))
    found = last(client)
    assert client.post(STREAM, headers={"stream-closed": "true"}).status_code == 204
    reply = client.post(JOBS, json=ROUND | {"round": 2, "position": write(client)})
    assert (reply.status_code, reply.json()["code"]) == (409, "jobs_stream_unusable")
    assert last(client) == found
    assert client.delete(STREAM).status_code == 204
    report(client, round=3, position=write(client))
    assert [one["round"] for one in history(client)] == [3]


def test_what_somebody_appends_to_the_stream_is_not_in_the_list(client):
    report(client, position=write(client))
    assert client.post(STREAM, json=[ROUND | {"name": "forged"}, 5]).status_code == 204
    assert [one["name"] for one in last(client)] == ["main"]


def test_a_caller_that_is_no_administrator_learns_and_changes_nothing(start_thread, connect_to, tmp_path):
    secret = write_secret(tmp_path / "secret")
    server = start_thread(jwt_secret_file=str(tmp_path / "secret"))
    client = connect_to(server)
    admin = bearer(secret.token(admin=True))
    assert client.post(JOBS, json=ROUND, headers=admin).status_code == 204
    assert client.get(JOBS).status_code == 401
    writer = bearer(secret.token(streams=["**"]))
    for reply in (client.get(JOBS, headers=writer), client.post(JOBS, json=ROUND | {"round": 2}, headers=writer)):
        assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")
    assert [one["round"] for one in client.get(JOBS, headers=admin).json()["jobs"]] == [1]


def test_metrics_show_the_last_round_of_every_job(client):
    report(client, rows=10, duration_s=1.5)
    report(client, rows=7, duration_s=2.5, round=2, faults=3)
    report(client, job="audit", name="nightly", error="the table is gone")
    text = client.get("/metrics").raise_for_status().text
    assert 'mainstem_job_last_round_rows{kind="archive",name="main"} 7\n' in text
    assert 'mainstem_job_last_round_duration_seconds{kind="archive",name="main"} 2.5\n' in text
    assert 'mainstem_job_last_round_faults{kind="archive",name="main"} 3\n' in text
    assert 'mainstem_job_last_round_failed{kind="archive",name="main"} 0\n' in text
    assert 'mainstem_job_last_round_failed{kind="audit",name="nightly"} 1\n' in text
    assert 'mainstem_job_lag_records{kind="audit",name="nightly"} 0\n' in text
    assert 'mainstem_job_last_round_timestamp_seconds{kind="audit",name="nightly"}' in text
