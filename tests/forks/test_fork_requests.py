"""Valid and invalid requests for forks."""

import pytest

from tests.forks.branches import JSON, ROOT, TEXT, fork, read_all

BEYOND = "0000000000000000_0000000000000099"


@pytest.fixture
def source(client, path):
    """A text stream with two appends: `one`, `three`."""
    client.put(ROOT + path, headers={"content-type": TEXT}, content=b"one")
    client.post(ROOT + path, headers={"content-type": TEXT}, content=b"three")
    return path


@pytest.fixture
def target(path):
    """The path of the fork, which no other test uses."""
    return path + "/fork"


def offset(position):
    return f"0000000000000000_{position:016d}"


def test_an_unknown_source_gets_404(client, target):
    refused = fork(client, target, "nowhere")
    assert (refused.status_code, refused.json()["code"]) == (404, "stream_not_found")
    assert fork(client, target, "nowhere", offset(0), 1).status_code == 404
    assert client.head(ROOT + target).status_code == 404


def test_a_source_is_named_by_its_url_path(client, target, source):
    for wrong in ("", source, "/" + source, "http://other.example" + ROOT + source, ROOT):
        refused = client.put(ROOT + target, headers={"stream-forked-from": wrong})
        assert refused.status_code == 400, wrong
    assert client.head(ROOT + target).status_code == 404


def test_a_source_whose_name_needs_encoding_is_found(client, target):
    client.put(ROOT + "caf%C3%A9%20%25", headers={"content-type": TEXT}, content=b"data")
    assert fork(client, target, "caf%C3%A9%20%25").status_code == 201
    assert read_all(client, target) == b"data"


@pytest.mark.parametrize("sub_offset", ["-1", "+1", "01", "1.0", "1e0", "x", "", "9007199254740992", "6"])
def test_a_sub_offset_that_is_malformed_or_beyond_the_next_append_gets_400(client, target, source, sub_offset):
    headers = {
        "stream-forked-from": ROOT + source,
        "stream-fork-offset": offset(3),
        "stream-fork-sub-offset": sub_offset,
    }
    assert client.put(ROOT + target, headers=headers).status_code == 400
    assert client.head(ROOT + target).status_code == 404


def test_a_sub_offset_at_the_end_of_the_source_has_nothing_to_count(client, target, source):
    assert fork(client, target, source, offset(8), 1).status_code == 400
    assert fork(client, target, source, offset(8), 0).status_code == 201


def test_a_sub_offset_needs_an_offset_and_both_need_a_source(client, target, source):
    assert fork(client, target, source, None, 1).status_code == 400
    for alone in ({"stream-fork-offset": offset(0)}, {"stream-fork-sub-offset": "0"}):
        assert client.put(ROOT + target, headers=alone | {"content-type": TEXT}).status_code == 400
    assert client.head(ROOT + target).status_code == 404


@pytest.mark.parametrize("anchor", [BEYOND, "0000000000000001_0000000000000000", "3", "", "x", "-2"])
def test_an_offset_that_the_source_does_not_have_gets_400(client, target, source, anchor):
    assert fork(client, target, source, anchor).status_code == 400
    assert client.head(ROOT + target).status_code == 404


def test_an_offset_within_a_json_message_gets_400(client, target, path):
    client.put(ROOT + path, headers={"content-type": JSON}, content=b'["first", "second"]')
    assert fork(client, target, path, offset(3)).status_code == 400
    assert fork(client, target, path, offset(8)).status_code == 201  # a message begins after `"first",`
    assert read_all(client, target) == b'"first"'


@pytest.mark.parametrize(("anchor", "data"), [("-1", b""), ("now", b"onethree"), (None, b"onethree")])
def test_a_fork_point_may_be_named_by_a_sentinel(client, target, source, anchor, data):
    assert fork(client, target, source, anchor).status_code == 201
    assert read_all(client, target) == data


def test_a_stream_cannot_fork_itself(client, target, source):
    refused = fork(client, source, source)
    assert (refused.status_code, refused.json()["code"]) == (409, "stream_exists")
    assert fork(client, target, target).status_code == 404
    assert client.head(ROOT + target).status_code == 404
    assert read_all(client, source) == b"onethree"


def test_a_fork_can_be_created_with_first_content_and_closed(client, target, source):
    headers = {"stream-forked-from": ROOT + source, "stream-fork-offset": offset(3), "stream-closed": "true"}
    created = client.put(ROOT + target, headers=headers, content=b" two")
    assert (created.status_code, created.headers["stream-closed"]) == (201, "true")
    assert created.headers["content-type"] == TEXT
    assert created.headers["stream-next-offset"] == offset(7)
    assert read_all(client, target) == b"one two"
    assert client.post(ROOT + target, headers={"content-type": TEXT}, content=b"x").status_code == 409


def test_a_content_type_that_differs_from_the_sources_is_a_conflict(client, target, source):
    assert fork(client, target, source, content_type=JSON).status_code == 409
    assert fork(client, target, source, content_type=TEXT).status_code == 201


def test_a_fork_of_a_closed_stream_is_open(client, target, source):
    client.post(ROOT + source, headers={"stream-closed": "true"})
    assert "stream-closed" not in fork(client, target, source).headers
    assert client.post(ROOT + target, headers={"content-type": TEXT}, content=b"!").status_code == 204
    assert read_all(client, target) == b"onethree!"


def test_a_fork_keeps_what_it_inherits_and_cannot_have_retention(client, target, source):
    assert fork(client, target, source, stream_retention="max-bytes=1").status_code == 400


def test_the_same_fork_again_is_200_even_when_both_have_grown(client, target, source):
    first = fork(client, target, source, offset(3), 2)
    client.post(ROOT + target, headers={"content-type": TEXT}, content=b"own")
    client.post(ROOT + source, headers={"content-type": TEXT}, content=b"more")
    again = fork(client, target, source, offset(3), 2)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["stream-next-offset"] == offset(8)
    for other in (fork(client, target, source, offset(3)), fork(client, target, source, offset(0), 2)):
        assert (other.status_code, other.json()["code"]) == (409, "stream_exists")


def test_the_same_fork_again_is_200_even_when_the_source_is_deleted(client, target, source):
    fork(client, target, source, offset(3))
    client.delete(ROOT + source)
    assert fork(client, target, source, offset(3)).status_code == 200
    assert fork(client, target + "/other", source, offset(3)).status_code == 409


def test_a_fork_of_an_earlier_incarnation_of_a_path_is_not_confused_with_the_next(client, target, source):
    tail = client.head(ROOT + source).headers["stream-next-offset"]
    client.delete(ROOT + source)
    client.put(ROOT + source, headers={"content-type": TEXT}, content=b"new life")
    assert fork(client, target, source, tail).status_code in {400, 410}
    assert fork(client, target, source).status_code == 201
    assert read_all(client, target) == b"new life"
