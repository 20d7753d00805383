"""Creating, describing, listing, forking, closing and deleting streams."""

import pytest

from mainstem.client import BadArgument, NotFound, StreamClosed, StreamExists, StreamInfo

JSON = "application/json"


def test_create_makes_a_stream_and_reports_it(streams, path):
    info = streams.create(path, "text/plain")
    assert (info.path, info.content_type, info.closed, info.created) == (path, "text/plain", False, True)
    assert streams.read_bytes(path) == b""


def test_create_is_idempotent(streams, path):
    first = streams.create(path, "text/plain", body="once")
    again = streams.create(path, "text/plain", body="once")
    assert (again.created, again.next_offset) == (False, first.next_offset)
    assert streams.read_text(path) == "once"


def test_create_with_a_different_configuration_is_refused(streams, path):
    streams.create(path, "text/plain")
    with pytest.raises(StreamExists, match=path):
        streams.create(path, JSON)


def test_the_default_content_type_is_binary(streams, path):
    streams.create(path)
    assert streams.head(path).content_type == "application/octet-stream"


def test_a_content_type_keeps_its_parameters(streams, path):
    streams.create(path, "text/plain; charset=utf-8")
    assert streams.head(path).content_type == "text/plain; charset=utf-8"
    streams.append(path, "ü")
    (batch,) = streams.read(path)
    assert (batch.content_type, batch.text) == ("text/plain; charset=utf-8", "ü")


def test_lifetimes_and_retention_are_sent_and_returned(streams, path):
    streams.create(path, ttl_s=3600, retention="max-messages=10")
    info = streams.head(path)
    assert (info.ttl_s, info.retention, info.earliest_offset) == (3600, "max-messages=10", info.next_offset)
    streams.create(f"{path}/until", expires_at="2099-01-01T00:00:00Z")
    assert streams.head(f"{path}/until").expires_at == "2099-01-01T00:00:00Z"


def test_a_stream_can_be_created_closed_with_its_only_content(streams, path):
    info = streams.create(path, JSON, body={"all": True}, closed=True, ttl_s=60)
    assert info.closed
    (batch,) = streams.read(path)
    assert (batch.messages, batch.closed, batch.up_to_date) == ([{"all": True}], True, True)


def test_head_returns_the_end_of_the_stream(streams, path):
    empty = streams.create(path, "text/plain").next_offset
    assert streams.head(path) == StreamInfo(path=path, content_type="text/plain", next_offset=empty)
    appended = streams.append(path, "data")
    assert streams.head(path).next_offset == appended.next_offset > empty


@pytest.mark.parametrize("call", ["head", "delete", "read_bytes", "read_json"])
def test_a_missing_stream_is_named_in_the_error(streams, path, call):
    with pytest.raises(NotFound, match=path) as caught:
        getattr(streams, call)(path)
    assert caught.value.status == 404
    assert not caught.value.retryable
    assert caught.value.hint


def test_appending_to_and_closing_a_missing_stream_names_it_too(streams, path):
    with pytest.raises(NotFound, match=path):
        streams.append(path, "data", content_type="text/plain")
    with pytest.raises(NotFound, match=path):
        streams.append(path, "data")
    with pytest.raises(NotFound, match=path):
        streams.close(path)


def test_a_deleted_stream_is_gone_and_can_be_created_again(streams, path):
    streams.create(path, "text/plain", body="old")
    old = streams.head(path).next_offset
    streams.delete(path)
    with pytest.raises(NotFound):
        streams.read_bytes(path)
    with pytest.raises(NotFound):
        streams.append(path, "late")
    with pytest.raises(NotFound):
        streams.delete(path)
    assert streams.create(path, "text/plain", body="new").next_offset > old
    assert streams.read_text(path) == "new"


def test_a_closed_stream_can_be_deleted(streams, path):
    streams.create(path, "text/plain", closed=True)
    streams.delete(path)
    with pytest.raises(NotFound):
        streams.head(path)


def test_streams_do_not_affect_each_other(streams, path):
    for name in "ab":
        streams.create(f"{path}/{name}", "text/plain")
        streams.append(f"{path}/{name}", name)
    assert [streams.read_text(f"{path}/{name}") for name in "ab"] == ["a", "b"]


# Closing


def test_close_ends_a_stream_and_returns_the_end(streams, path):
    streams.create(path, "text/plain")
    appended = streams.append(path, "all")
    closed = streams.close(path)
    assert (closed.closed, closed.next_offset) == (True, appended.next_offset)
    assert streams.head(path).closed
    assert streams.close(path).closed, "closing again changes nothing"


def test_an_empty_stream_can_be_closed_or_created_closed(streams, path):
    streams.create(path, "text/plain")
    assert not streams.head(path).closed
    streams.close(path)
    streams.create(f"{path}/closed", "text/plain", closed=True)
    for name in (path, f"{path}/closed"):
        assert streams.head(name).closed
        (batch,) = streams.read(name)
        assert (batch.data, batch.up_to_date, batch.closed) == (b"", True, True)


def test_close_with_data_is_one_step(streams, path):
    streams.create(path, JSON)
    closed = streams.close(path, {"last": 1})
    (batch,) = streams.read(path)
    assert (batch.messages, batch.closed, batch.offset) == ([{"last": 1}], True, closed.next_offset)
    assert streams.head(path).next_offset == closed.next_offset
    with pytest.raises(StreamClosed):
        streams.close(path, {"another": 2})


def test_a_closed_stream_accepts_no_data_and_returns_its_end(streams, path):
    streams.create(path, "text/plain")
    end = streams.close(path, "end").next_offset
    with pytest.raises(StreamClosed, match=path) as caught:
        streams.append(path, "more")
    assert (caught.value.next_offset, caught.value.status) == (end, 409)


def test_the_producer_that_closed_may_close_again_and_another_may_not(streams, path):
    streams.create(path, "text/plain")
    for expected in (False, True):
        closed = streams.close(path, "A" if not expected else "B", producer=("one", 0, 0))
        assert closed.duplicate is expected
    assert streams.read_text(path) == "A"
    with pytest.raises(StreamClosed):
        streams.close(path, producer=("two", 0, 0))


def test_reading_at_the_end_of_a_closed_stream_reports_that_it_is_closed(streams, path):
    streams.create(path, "text/plain", body="x")
    end = streams.close(path).next_offset
    (batch,) = streams.read(path, end)
    assert (batch.data, batch.closed, batch.up_to_date, batch.empty) == (b"", True, True, True)


# Forks and lists


def test_a_fork_begins_with_the_data_of_its_source(streams, path):
    streams.create(path, JSON)
    middle = streams.append_json(path, 1, 2).next_offset
    streams.append_json(path, 3)
    assert streams.fork(f"{path}/whole", path).created
    streams.fork(f"{path}/part", path, offset=middle)
    streams.fork(f"{path}/more", path, offset=middle, sub_offset=1)
    streams.append(f"{path}/part", "mine")
    assert streams.read_json(f"{path}/whole") == [1, 2, 3]
    assert streams.read_json(f"{path}/part") == [1, 2, "mine"]
    assert streams.read_json(f"{path}/more") == [1, 2, 3]
    assert streams.read_json(path) == [1, 2, 3]


def test_list_yields_every_stream_of_a_prefix_in_order(streams, path):
    made = [f"{path}/{number:04d}" for number in range(7)]
    for name in made:
        streams.create(name, "text/plain")
    found = list(streams.list(f"{path}/"))
    assert [info.path for info in found] == made
    assert {info.content_type for info in found} == {"text/plain"}
    assert [info.path for info in streams.list(f"{path}/", after=made[4])] == made[5:]
    assert list(streams.list(f"{path}/nothing")) == []


def test_list_reads_page_after_page(streams, path, monkeypatch):
    monkeypatch.setattr("mainstem.limits.LISTED_STREAMS_MAX", 2)
    for number in range(5):
        streams.create(f"{path}/{number}")
    assert [info.path[-1] for info in streams.list(f"{path}/")] == list("01234")


@pytest.mark.parametrize("name", ["ü/ß", "a b", "50%", "q?x=1", "#h", "a+b", "a&b=c", "日本"])
def test_any_path_that_the_server_accepts_can_be_used(streams, path, name):
    full = f"{path}/{name}"
    streams.create(full, "text/plain", body="x")
    streams.append(full, "y")
    assert streams.read_text(full) == "xy"
    assert [info.path for info in streams.list(full)] == [full]
    assert streams.fork(f"{path}/fork", full).created


@pytest.mark.parametrize("name", ["", "/leading", "a/../b", "a//b", "./a"])
def test_a_path_that_cannot_be_one_is_refused_before_it_is_sent(streams, name):
    with pytest.raises(BadArgument, match="not the path of a stream"):
        streams.head(name)


def test_request_sends_requests_that_have_no_method_of_their_own(streams, path):
    streams.create(path, JSON, body=[1])
    response = streams.request("GET", "/v1/streams", params={"prefix": path})
    assert [item["path"] for item in response.json()["streams"]] == [path]
    assert streams.request("POST", f"/v1/stream/{path}", body=b"[2]", headers={"Content-Type": JSON}).status == 204
    with pytest.raises(NotFound):
        streams.request("GET", "/v1/nothing")
    with pytest.raises(BadArgument, match="slash"):
        streams.request("GET", "v1/streams")
