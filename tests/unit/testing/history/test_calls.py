from math import inf

from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import (
    Append,
    Broadcast,
    Event,
    LogPage,
    Prune,
    Read,
    Row,
    Submit,
    decode_call,
    encode_call,
    size_of,
)

CALLS = [
    Append(
        client="c",
        start=1.5,
        end=2.25,
        path="s",
        messages=("a", "ü"),
        if_match=Offset(0, 7),
        producer=ProducerTuple("p", 0, 3),
        next=Offset(0, 12),
    ),
    Read(client="c", start=1, path="s", since=None),
    Submit(client="c", start=1, end=2, id="e", partitions=("p", "q"), content='{"n":1}', refusal="validation_failed"),
    Broadcast(client="c", start=1, end=2, event=Event(5, "e", ("p",), "{}")),
    Prune(client="a", start=1, end=2, floors={"p": 4}),
    LogPage(client="c", start=1, end=2, after=0, rows=(Row(1, "s", Offset(0, 0), "a"),), next=1, up_to_date=True),
]


def test_a_history_file_has_one_call_per_line_and_loses_nothing():
    lines = [encode_call(call) for call in CALLS]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    assert [decode_call(line) for line in lines] == CALLS


def test_a_call_without_an_end_is_neither_accepted_nor_refused():
    unanswered, accepted, refused = CALLS[1], CALLS[0], CALLS[2]
    assert (unanswered.accepted, unanswered.refused, unanswered.latest) == (False, False, inf)
    assert (accepted.accepted, accepted.refused, accepted.latest) == (True, False, 2.25)
    assert (refused.accepted, refused.refused) == (False, True)


def test_a_message_takes_its_bytes_and_one_more():
    assert size_of(()) == 0
    assert size_of(("a", "ü")) == 2 + 3


def test_an_append_was_stored_before_the_end_that_its_reply_names():
    append = Append(client="c", end=1, path="s", messages=("a", "ü"), next=Offset(2, 12))
    assert append.known_start == Offset(2, 7)
    append.duplicate = True
    assert append.known_start is None


def test_a_call_that_has_lapsed_took_effect_before_or_never():
    assert Append(client="w", path="s", start=1, lapsed=5).latest == 5
    assert Append(client="w", path="s", start=1).latest == inf
    assert Append(client="w", path="s", start=1, end=2).latest == 2
