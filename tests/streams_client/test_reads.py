"""Reading existing data: batches with their offsets, and everything at once."""

import pytest

from mainstem.client import BadArgument, BadRequest, Batch, NotFound, TooMuchData, UnreadableMessage

JSON = "application/json"


def test_an_empty_stream_yields_one_empty_batch_that_is_up_to_date(streams, path):
    offset = streams.create(path, "text/plain").next_offset
    (batch,) = streams.read(path)
    assert batch == Batch(data=b"", offset=offset, content_type="text/plain", up_to_date=True)
    assert batch.empty
    streams.create(f"{path}/json", JSON)
    assert streams.read_json(f"{path}/json") == []


def test_a_long_stream_is_read_in_batches_without_gap_or_overlap(streams, path):
    streams.create(path, JSON)
    for start in range(0, 600, 100):
        streams.append_json(path, *({"number": number, "pad": "x" * 30} for number in range(start, start + 100)))
    batches = list(streams.read(path))
    assert len(batches) > 3
    assert [batch.up_to_date for batch in batches] == [False] * (len(batches) - 1) + [True]
    offsets = [batch.offset for batch in batches]
    assert offsets == sorted(set(offsets))
    numbers = [message["number"] for batch in batches for message in batch.messages]
    assert numbers == list(range(600))
    for at, batch in enumerate(batches[:-1]):
        rest = [message["number"] for message in streams.read_json(path, batch.offset)]
        assert rest == numbers[sum(len(done.messages) for done in batches[: at + 1]) :]


def test_one_batch_can_be_read_alone(streams, path):
    streams.create(path, body=b"x" * 3000)
    for _ in range(3):
        streams.append(path, b"y" * 3000)
    (first,) = streams.read(path, until_up_to_date=False)
    assert not first.up_to_date
    assert not first.closed
    (second,) = streams.read(path, first.offset, until_up_to_date=False)
    assert first.data + second.data + streams.read_bytes(path, second.offset) == b"x" * 3000 + b"y" * 9000


def test_any_returned_offset_can_be_read_from(streams, path):
    streams.create(path, "text/plain")
    offsets = [streams.append(path, f"{number} ").next_offset for number in range(5)]
    assert offsets == sorted(offsets)
    for at, offset in enumerate(offsets):
        assert streams.read_text(path, offset) == "".join(f"{number} " for number in range(at + 1, 5))
    assert streams.head(path).next_offset == offsets[-1]
    assert streams.read_text(path, "-1") == streams.read_text(path)
    assert streams.read_text(path, offsets[0]) == streams.read_text(path, offsets[0]), "the data must not change"
    before = streams.read_text(path)
    streams.append(path, "more")
    assert streams.read_text(path).startswith(before)


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", JSON, "application/x-custom-type"])
def test_reading_again_returns_the_same(streams, path, content_type):
    streams.create(path, content_type)
    streams.append(path, b"1")
    middle = streams.append(path, b"2").next_offset
    streams.append(path, b"3")
    for offset, data in (("-1", (b"123", b"[1,2,3]")), (middle, (b"3", b"[3]"))):
        (first,) = streams.read(path, offset)
        assert (first.up_to_date, first.closed, first.content_type) == (True, False, content_type)
        assert first.data in data
        for _ in range(2):
            assert list(streams.read(path, offset)) == [first]
    assert streams.head(path).content_type == content_type


@pytest.mark.parametrize("find", ["head", "now", "create", "read"])
def test_new_data_begins_at_the_end_whichever_call_returned_it(streams, path, find):
    created = streams.create(path, "text/plain", body="old").next_offset
    if find == "head":
        end = streams.head(path).next_offset
    elif find == "create":
        end = created
    else:
        *_, batch = streams.read(path, "now" if find == "now" else "-1")
        end = batch.offset
    (empty,) = streams.read(path, end)
    assert (empty.data, empty.up_to_date, empty.offset) == (b"", True, end)
    streams.append(path, "new")
    assert streams.read_text(path, end) == "new"


def test_now_on_an_empty_stream_is_its_beginning(streams, path):
    created = streams.create(path, "text/plain").next_offset
    (batch,) = streams.read(path, "now")
    assert (batch.data, batch.offset, batch.up_to_date) == (b"", created, True)
    streams.append(path, "first")
    assert streams.read_text(path, batch.offset) == "first"


def test_an_offset_beyond_the_end_is_refused(streams, path):
    ahead = streams.create(f"{path}/longer", "text/plain", body="longer").next_offset
    streams.create(path, "text/plain", body="short")
    with pytest.raises(BadRequest, match="beyond the end"):
        streams.read_text(path, ahead)


def test_only_the_last_batch_of_a_closed_stream_is_closed(streams, path):
    streams.create(path)
    for _ in range(4):
        streams.append(path, bytes(3_000))
    streams.close(path)
    batches = list(streams.read(path))
    assert len(batches) > 1
    expected = [(False, False)] * (len(batches) - 1) + [(True, True)]
    assert [(batch.up_to_date, batch.closed) for batch in batches] == expected


def test_now_returns_the_end_and_no_data(streams, path):
    streams.create(path, JSON, body=[1])
    (batch,) = streams.read(path, "now")
    assert (batch.messages, batch.offset, batch.up_to_date) == ([], streams.head(path).next_offset, True)
    streams.append(path, 2)
    assert streams.read_json(path, batch.offset) == [2]


def test_an_offset_can_be_used_by_another_client(twins, server, path):
    writer, reader = twins(server.url), twins(server.url)
    writer.create(path, "text/plain")
    offset = writer.append(path, "a").next_offset
    writer.append(path, "b")
    assert reader.read_text(path, offset) == "b"


@pytest.mark.parametrize("offset", ["nonsense", "0", "", "-2"])
def test_an_invalid_offset_is_refused_with_a_reason(streams, path, offset):
    streams.create(path, "text/plain")
    with pytest.raises(BadRequest, match="offset") as caught:
        list(streams.read(path, offset))
    assert caught.value.code == "invalid_offset"
    assert "Stream-Next-Offset" in caught.value.hint


@pytest.mark.parametrize("offset", ["now", "-1"])
def test_now_does_not_hide_that_a_stream_is_missing(streams, path, offset):
    with pytest.raises(NotFound):
        list(streams.read(path, offset))


def test_text_that_was_split_within_a_character_is_read_whole(streams, path):
    streams.create(path, "text/plain")
    for byte in "ü🌊".encode():
        streams.append(path, bytes([byte]))
    assert streams.read_text(path) == "ü🌊"


def test_the_last_messages_can_be_read_alone(streams, path):
    streams.create(path, JSON)
    streams.append_json(path, *range(10))
    batch = streams.read_tail(path, 3)
    assert (batch.messages, batch.up_to_date) == ([7, 8, 9], True)


def test_raw_messages_are_returned_as_they_were_sent(streams, path):
    streams.create(path, JSON)
    streams.append(path, b'[1.0, {"b":1,"a":2}, 123456789012345678901234567890]')
    (batch,) = streams.read(path)
    assert batch.raw_messages == [b"1.0", b'{"b":1,"a":2}', b"123456789012345678901234567890"]


def test_a_stream_that_is_not_json_has_no_messages_and_the_error_names_its_content_type(streams, path):
    streams.create(path, "text/plain", body="x")
    (batch,) = streams.read(path)
    with pytest.raises(TypeError, match="use data or text"):
        batch.messages  # noqa: B018
    with pytest.raises(BadArgument, match="use read_bytes or read_text"):
        streams.read_json(path)


def test_bytes_that_are_not_text_are_not_read_as_text(streams, path):
    streams.create(path, body=b"\xff")
    with pytest.raises(BadArgument, match="use read_bytes"):
        streams.read_text(path)


def test_a_disconnected_client_raises_an_error(twins, server, path):
    streams = twins(server.url)
    streams.create(path)
    streams.disconnect()
    with pytest.raises(BadArgument, match="create a new one"):
        streams.head(path)


def test_reading_stops_at_the_requested_size(streams, path):
    streams.create(path)
    streams.append(path, bytes(10_000))
    with pytest.raises(TooMuchData) as caught:
        streams.read_bytes(path, bytes_max=9_999)
    assert "read()" in caught.value.hint
    assert len(streams.read_bytes(path, bytes_max=10_000)) == 10_000


def test_a_message_that_is_an_empty_array_is_a_message():
    batch = Batch(data=b"[[]]", offset="1", content_type=JSON)
    assert (batch.empty, batch.messages) == (False, [[]])
    assert Batch(data=b" [ ] ", offset="1", content_type=JSON).empty


def test_compressed_pages_are_read_like_uncompressed_ones(streams, path):
    streams.create(path, "text/plain")
    streams.append(path, "long " * 2_000)
    assert streams.read_text(path) == "long " * 2_000


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000], ids=["float", "integer"])
@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_number_that_python_cannot_hold_keeps_no_reader_from_the_stream(streams, path, number, live):
    """It is valid JSON, so any writer can append it."""
    messages = [b"1", b'{"n":' + number + b"}", b"3"]
    streams.create(path, JSON)
    streams.append(path, b"[" + b",".join(messages) + b"]")
    (batch,) = streams.read(path)
    assert batch.raw_messages == messages
    assert streams.read_bytes(path) == b"[" + b",".join(messages) + b"]"
    with pytest.raises(UnreadableMessage, match="a message has a number out of range"):
        batch.messages  # noqa: B018
    with pytest.raises(UnreadableMessage):
        streams.read_json(path)
    streams.close(path)
    assert [message for batch in streams.follow(path, live=live) for message in batch.raw_messages] == messages
