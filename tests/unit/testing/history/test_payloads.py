from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import size_of
from mainstem.testing.history.payloads import Position, decode_messages, encode_messages

MESSAGES = ('"a:1"', '"a:2..."', '"b:1"')


def test_messages_survive_their_encoding():
    for path in ("kept/json", "kept/text"):
        assert decode_messages(path, encode_messages(path, MESSAGES)) == (MESSAGES, b"")
        assert decode_messages(path, encode_messages(path, ())) == ((), b"")


def test_text_takes_as_many_bytes_as_its_messages_say():
    assert len(encode_messages("kept/text", MESSAGES)) == size_of(MESSAGES)


def test_a_page_of_text_may_end_within_a_message():
    data = encode_messages("kept/text", MESSAGES)
    position = Position("kept/text")
    assert position.advance(data[:8], Offset(0, 8)) == MESSAGES[:1]
    assert (position.offset, position.since) == (Offset(0, 8), Offset(0, 6))
    assert position.advance(data[8:], Offset(0, len(data))) == MESSAGES[1:]
    assert position.since == position.offset == Offset(0, len(data))
    position.reset()
    assert position.since is None
