"""Snapshots of JSON streams, and trimming by request."""

import json

import pytest

from tests.support.waits import eventually

ROOT = "/v1/stream/"
SNAPSHOTS = "/v1/stream-snapshot/"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


def create(client, path, content_type=JSON):
    assert client.put(ROOT + path, headers=content_type).status_code == 201


def append(client, path, body, content_type=JSON):
    reply = client.post(ROOT + path, headers=content_type, content=body)
    assert reply.status_code == 204, reply.text
    return reply.headers["stream-next-offset"]


def head_id(client):
    return client.get("/v1/log/head").json()["head"]


def put(client, path, committed_id, offset, state=None):
    body = {"committed_id": committed_id, "offset": offset, "state": state}
    return client.put(SNAPSHOTS + path, json=body)


def trim(client, streams):
    return client.post("/v1/prune", json={"streams": streams})


def earliest(client, path):
    return client.head(SNAPSHOTS + path).headers["stream-earliest-offset"]


# Snapshots


def test_a_snapshot_is_returned_as_it_was_stored(client, path):
    create(client, path)
    offset = append(client, path, b"[1,2]")
    body = '{"committed_id": %d, "offset": "%s", "state": {"z": 1.0, "a": [12345678901234567890, "☃"]}}'
    reply = client.put(SNAPSHOTS + path, content=(body % (head_id(client), offset)).encode())
    assert reply.status_code == 204, reply.text
    found = client.get(SNAPSHOTS + path)
    assert found.status_code == 200
    assert '{"z": 1.0, "a": [12345678901234567890, "☃"]}' in found.text
    assert (found.json()["stream"], found.json()["offset"]) == (path, offset)
    told = client.head(SNAPSHOTS + path)
    assert told.status_code == 200
    assert (told.text, int(told.headers["snapshot-committed-id"])) == ("", found.json()["committed_id"])
    assert told.headers["snapshot-offset"] == offset


def test_a_stream_without_a_snapshot_reports_its_earliest_offset_and_its_end(client, path):
    assert client.get(SNAPSHOTS + path).json()["code"] == "stream_not_found"
    create(client, path)
    offset = append(client, path, b"[1]")
    found = client.get(SNAPSHOTS + path)
    assert (found.status_code, found.json()["code"]) == (404, "not_found")
    assert found.headers["stream-next-offset"] == offset
    assert found.headers["stream-earliest-offset"].endswith("_0000000000000000")


def test_a_snapshot_is_neither_older_than_the_current_one_nor_in_the_future(client, path):
    create(client, path)
    first = append(client, path, b"[1]")
    first_id = head_id(client)
    second = append(client, path, b"[2]")
    second_id = head_id(client)
    assert put(client, path, second_id + 1_000_000, second).status_code == 400
    assert put(client, path, second_id, second[:-1] + "9").json()["code"] == "invalid_offset"
    assert put(client, path, second_id, second).status_code == 204
    assert put(client, path, first_id, second).status_code == 400
    assert put(client, path, second_id, first).status_code == 400
    assert put(client, path, second_id, second, {"again": True}).status_code == 204
    assert client.get(SNAPSHOTS + path).json()["state"] == {"again": True}
    assert put(client, path, -1, second).status_code == 400
    assert put(client, path, second_id, "nonsense").json()["code"] == "invalid_offset"
    assert client.put(SNAPSHOTS + path, json={"committed_id": 1}).status_code == 400
    assert client.post(SNAPSHOTS + path, json={}).status_code == 405


def test_only_json_streams_have_snapshots(client, path):
    create(client, path, TEXT)
    offset = append(client, path, b"x", TEXT)
    reply = put(client, path, head_id(client), offset)
    assert (reply.status_code, reply.json()["code"]) == (409, "content_type_mismatch")
    assert put(client, path + "/none", 0, offset).status_code == 404


def test_a_recreated_stream_has_no_snapshot(client, path):
    create(client, path)
    offset = append(client, path, b"[1]")
    assert put(client, path, head_id(client), offset, {"old": 1}).status_code == 204
    client.delete(ROOT + path)
    assert client.get(SNAPSHOTS + path).status_code == 404
    create(client, path)
    assert client.get(SNAPSHOTS + path).status_code == 404
    assert put(client, path, head_id(client), offset).json()["code"] == "invalid_offset"
    again = append(client, path, b"[2]")
    assert put(client, path, head_id(client), again, {"new": 1}).status_code == 204
    assert client.get(SNAPSHOTS + path).json()["state"] == {"new": 1}


# Trimming


def test_history_before_an_offset_is_trimmed_in_whole_records(client, path):
    create(client, path)
    offsets = [append(client, path, body) for body in (b"[1,2]", b"[3,4]", b"[5]")]
    within = offsets[0][:-1] + str(int(offsets[0][-1]) + 2)
    assert trim(client, {path: within}).status_code == 202
    assert earliest(client, path) == offsets[0]
    assert client.get(ROOT + path).json() == [3, 4, 5]
    gone = client.get(f"{ROOT}{path}?offset={'0' * 16}_{'0' * 16}")
    assert (gone.status_code, gone.json()["code"]) == (410, "offset_gone")
    assert gone.headers["stream-earliest-offset"] == offsets[0]
    assert client.get(f"{ROOT}{path}?offset={offsets[0]}").json() == [3, 4, 5]
    eventually(lambda: [r["position"] for r in rows(client, path)] == [0, 1, 0])


def rows(client, path):
    return [json.loads(line) for line in client.get("/v1/log", params={"stream": path}).text.splitlines()]


def test_the_newest_record_is_always_kept(client, path):
    create(client, path, TEXT)
    offsets = [append(client, path, b"0123456789", TEXT) for _ in range(3)]
    assert trim(client, {path: offsets[-1]}).status_code == 202
    assert earliest(client, path) == offsets[1]
    assert client.get(ROOT + path).text == "0123456789"
    assert append(client, path, b"more", TEXT) > offsets[-1]


def test_many_records_are_trimmed_in_several_steps(client, path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.ERASE_RECORDS_MAX", 3)
    create(client, path, TEXT)
    offsets = [append(client, path, b"0123456789", TEXT) for _ in range(11)]
    assert trim(client, {path: offsets[7]}).status_code == 202
    assert earliest(client, path) == offsets[7]
    eventually(lambda: len(rows(client, path)) == 3)
    pruned = client.get("/v1/log/head").json()["pruned"]
    assert pruned == rows(client, path)[0]["committed_id"] - 1


def test_forks_keep_what_their_source_would_discard(client, path):
    create(client, path)
    offsets = [append(client, path, body) for body in (b"[1]", b"[2]", b"[3]")]
    assert client.put(ROOT + path + "/f", headers={"stream-forked-from": ROOT + path}).status_code == 201
    assert trim(client, {path: offsets[1]}).status_code == 202
    assert client.get(ROOT + path).json() == [1, 2, 3]
    assert client.get(ROOT + path + "/f").json() == [1, 2, 3]
    client.delete(ROOT + path + "/f")

    def trimmed():
        assert trim(client, {path: offsets[1]}).status_code == 202
        return earliest(client, path) == offsets[1]

    eventually(trimmed)


def test_what_was_trimmed_stays_trimmed(client, path):
    create(client, path)
    offsets = [append(client, path, body) for body in (b"[1]", b"[2]", b"[3]")]
    assert trim(client, {path: offsets[1]}).status_code == 202
    assert trim(client, {path: offsets[0]}).status_code == 202
    assert earliest(client, path) == offsets[1]


@pytest.mark.parametrize(
    ("streams", "status", "code"),
    [
        ({"nowhere/at-all": "0000000000000000_0000000000000001"}, 404, "stream_not_found"),
        ({"{path}": "0000000000000000_0000000000009999"}, 400, "invalid_offset"),
        ({"{path}": "0000000000000001_0000000000000000"}, 400, "invalid_offset"),
        ({"{path}": "-1"}, 400, "invalid_offset"),
        ({"{path}": 7}, 400, "bad_request"),
        ({}, 400, "bad_request"),
    ],
)
def test_what_cannot_be_trimmed_is_refused(client, path, streams, status, code):
    create(client, path)
    append(client, path, b"[1]")
    reply = trim(client, {name.format(path=path): offset for name, offset in streams.items()})
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert client.get(ROOT + path).json() == [1]


def test_partitions_and_streams_are_pruned_in_one_request(client, path):
    create(client, path)
    offsets = [append(client, path, body) for body in (b"[1]", b"[2]")]
    reply = client.post("/v1/prune", json={"floors": {"room": 1}, "streams": {path: offsets[0]}})
    assert reply.status_code == 202
    assert client.head("/v1/snapshot/room").headers["partition-floor"] == "1"
    assert client.get(ROOT + path).json() == [2]
