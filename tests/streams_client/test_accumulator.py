"""The producer's state, against a simulated server that follows the protocol and a network that misbehaves."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.client.core.accumulator import Accumulator
from mainstem.client.core.errors import (
    BadArgument,
    ConnectionFailed,
    OutcomeUnknown,
    ProducerClosed,
    StaleEpoch,
    StreamClosed,
    error_of,
)
from mainstem.client.core.producer_batches import ProducerBatch, ProducerConfig
from mainstem.client.core.retries import Retries
from mainstem.errors import MainstemError
from mainstem.log.records import TopicId
from mainstem.streams.rules.producers import is_duplicate
from mainstem.streams.states import ProducerState, ProducerTuple
from tests.support.examples import examples

FOREVER = Retries(attempts_max=None, delay_s=0.1, delay_s_max=1.0)


def make(epoch: int = 0, **rules) -> Accumulator:
    return Accumulator(ProducerConfig(**{"linger_s": 0.0, "retries": FOREVER, **rules}), epoch, lambda: 0.5)


def take(accumulator: Accumulator, now_s: float = 0.0) -> ProducerBatch:
    """Return the next batch, which must exist."""
    batch = accumulator.next(now_s)
    assert batch is not None
    return batch


class Server:
    """The real rule for producers, over a list of messages. `largest` is the largest batch that it accepts."""

    def __init__(self, largest: int = 1_000) -> None:
        self.stored: list[bytes] = []
        self.closed_by: ProducerTuple | None = None
        self.largest = largest
        self._known: ProducerState | None = None

    def receive(self, producer: ProducerTuple, messages: list[bytes], closes: bool):
        """Return the status and the headers of the reply."""
        if len(messages) > self.largest:
            return 413, {}
        if self.closed_by is not None and self.closed_by != producer:
            return 409, {"stream-closed": "true"}
        try:
            if is_duplicate(self._known, producer):
                return 204, {}
        except MainstemError as error:
            return error.status, {name.lower(): value for name, value in error.headers.items()}
        self._known = ProducerState(TopicId(0), producer.epoch, producer.seq)
        self.stored += messages
        if closes:
            self.closed_by = producer
        return 200, {}

    def fence(self, epoch: int) -> None:
        self._known = ProducerState(TopicId(0), epoch, 0)


class World:
    """A producer, a server, and requests in transit between them."""

    def __init__(self, accumulator: Accumulator, server: Server) -> None:
        self.accumulator = accumulator
        self.server = server
        self.now_s = 0.0
        self.sent: list[Any] = []
        self.answered: list[Any] = []
        self.lingering: list[Any] = []
        self.added: list[bytes] = []

    def add(self, message: bytes) -> None:
        self.added.append(message)
        self.accumulator.add(message, self.now_s)

    def send(self) -> None:
        while (batch := self.accumulator.next(self.now_s)) is not None:
            assert batch.seq is not None
            numbers = ProducerTuple("p", self.accumulator.epoch, batch.seq)
            self.sent.append((batch, numbers, list(batch.messages), batch.closes))
            self.accumulator.mark_sent(batch)

    def arrive(self, index: int) -> None:
        """Deliver one of the requests to the server; its reply is in transit."""
        batch, numbers, messages, closes = self.sent.pop(index % len(self.sent))
        self.answered.append((batch, *self.server.receive(numbers, messages, closes)))

    def answer(self, index: int) -> None:
        batch, status, headers = self.answered.pop(index % len(self.answered))
        if status in (200, 204):
            self.accumulator.acknowledge(batch, duplicate=status == 204)
        else:
            self.accumulator.refuse(batch, error_of("POST s", status, headers, b""), self.now_s)

    def break_request(self, index: int, *, arrives: bool) -> None:
        """Break a connection while the request is in transit; the request may still arrive later."""
        request = self.sent.pop(index % len(self.sent))
        if arrives:
            self.lingering.append(request)
        self.accumulator.lose(request[0], ConnectionFailed("broken"), sent=True, now_s=self.now_s)

    def arrive_late(self, index: int) -> None:
        _, numbers, messages, closes = self.lingering.pop(index % len(self.lingering))
        self.server.receive(numbers, messages, closes)

    def break_reply(self, index: int) -> None:
        batch, *_ = self.answered.pop(index % len(self.answered))
        self.accumulator.lose(batch, ConnectionFailed("broken"), sent=True, now_s=self.now_s)

    def refuse(self, index: int, status: int, retry_after: str | None) -> None:
        batch, *_ = self.sent.pop(index % len(self.sent))
        headers = {} if retry_after is None else {"retry-after": retry_after}
        self.accumulator.refuse(batch, error_of("POST s", status, headers, b""), self.now_s)

    def finish(self) -> None:
        """Stop all faults, and advance the clock until everything is settled."""
        for _ in range(10_000):
            self.send()
            if self.sent:
                self.arrive(0)
            elif self.answered:
                self.answer(0)
            elif self.accumulator.idle:
                return
            else:
                wait_s = self.accumulator.wait_s(self.now_s)
                assert wait_s is not None, "nothing is in transit, and no timer is set"
                self.now_s += wait_s
        raise AssertionError("the producer never becomes idle")


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "send", "send", "arrive", "answer", "break", "late", "lose", "refuse", "wait"]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=80,
)


def play(world: World, script) -> None:
    for what, number, coin in script:
        if what == "add" and world.accumulator.ended is None:
            for _ in range(number):
                world.add(b"m%d" % len(world.added))
        elif what == "send":
            world.send()
        elif what == "arrive" and world.sent:
            world.arrive(number)
        elif what == "answer" and world.answered:
            world.answer(number)
        elif what == "break" and world.sent:
            world.break_request(number, arrives=coin)
        elif what == "late" and world.lingering:
            world.arrive_late(number)
        elif what == "lose" and world.answered:
            world.break_reply(number)
        elif what == "refuse" and world.sent:
            world.refuse(number, 503 if coin else 500, str(number) if coin else None)
        elif what == "wait":
            world.now_s += number


@settings(max_examples=examples(400))
@given(steps, st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_nothing_is_lost_duplicated_or_reordered(script, in_flight_max, batch_messages, closes):
    accumulator = make(in_flight_max=in_flight_max, batch_messages=batch_messages)
    world = World(accumulator, Server())
    play(world, script)
    if closes:
        world.added.append(b"last")
        accumulator.close_stream(b"last", world.now_s)
    world.finish()
    while world.lingering:
        world.arrive_late(0)
    assert world.server.stored == world.added
    assert (world.server.closed_by is not None) is closes
    assert accumulator.failures == []
    check_outcome(world)


@settings(max_examples=examples(300))
@given(steps, st.integers(1, 3), st.integers(1, 5))
def test_batches_that_are_too_large_are_split(script, largest, in_flight_max):
    accumulator = make(in_flight_max=in_flight_max, batch_messages=5)
    world = World(accumulator, Server(largest))
    play(world, script)
    world.finish()
    while world.lingering:
        world.arrive_late(0)
    check_outcome(world)
    if accumulator.ended is None:  # otherwise it gave up because renumbering could have stored something twice
        assert world.server.stored == world.added


@settings(max_examples=examples(300))
@given(steps, st.integers(1, 5), st.lists(st.integers(0, 80), max_size=3))
def test_claiming_an_epoch_duplicates_nothing_and_reports_what_it_cannot_know(script, in_flight_max, fences):
    accumulator = make(in_flight_max=in_flight_max, batch_messages=3, auto_claim=True)
    world = World(accumulator, Server())
    for at, step in enumerate(script):
        if at in fences:
            world.server.fence(accumulator.epoch + 3)
        play(world, [step])
    world.finish()
    while world.lingering:
        world.arrive_late(0)
    check_outcome(world)
    assert all(isinstance(failed.error, OutcomeUnknown) for failed in accumulator.failures)


def check_outcome(world: World) -> None:
    """Each message is stored once and in order, or reported as possibly not stored."""
    stored, accumulator = world.server.stored, world.accumulator
    assert [message for message in world.added if message in set(stored)] == stored
    failed = {message for failed in accumulator.failures for message in failed.messages}
    assert set(stored) | failed == set(world.added)
    assert (accumulator.settled, accumulator.buffered) == (len(world.added), 0)


# Single rules


def test_messages_linger_until_a_batch_is_full():
    accumulator = make(linger_s=1.0, batch_bytes=10)
    assert accumulator.add(b"123", 0.0), "the sender must be woken for the linger time"
    assert not accumulator.add(b"45", 0.1)
    assert (accumulator.next(0.5), accumulator.wait_s(0.5)) == (None, 0.5)
    assert accumulator.add(b"6789", 0.6), "the third message does not fit any more"
    assert take(accumulator, 0.6).messages == [b"123", b"45"]
    assert accumulator.wait_s(0.6) is None, "an epoch begins with one request"


def test_a_flush_does_not_linger():
    accumulator = make(linger_s=60.0)
    accumulator.add(b"a", 0.0)
    assert accumulator.next(0.0) is None
    accumulator.flush()
    assert accumulator.wait_s(0.0) == 0.0
    assert take(accumulator).messages == [b"a"]


def test_a_clock_that_stands_still_blocks_nothing_forever():
    accumulator = make(linger_s=1.0, batch_messages=2)
    accumulator.add(b"a", 100.0)
    accumulator.add(b"b", 0.0)
    assert take(accumulator).messages == [b"a", b"b"]


def confirm(accumulator: Accumulator) -> None:
    accumulator.add(b"first", 0.0)
    accumulator.acknowledge(take(accumulator), duplicate=False)


def test_no_more_requests_are_in_flight_than_allowed():
    accumulator = make(in_flight_max=3, batch_messages=1)
    confirm(accumulator)
    for _ in range(5):
        accumulator.add(b"x", 0.0)
    batches = []
    while (batch := accumulator.next(0.0)) is not None:
        batches.append(batch)
        assert accumulator.next(0.0) is None, "the previous one has not been sent yet"
        accumulator.mark_sent(batch)
    assert [batch.seq for batch in batches] == [1, 2, 3]
    accumulator.acknowledge(batches[2], duplicate=False)
    assert accumulator.settled == 4, "an acknowledgement settles all earlier numbers"
    assert [batch.settled for batch in batches] == [True] * 3


def test_retries_are_sent_in_order_one_at_a_time():
    accumulator = make(in_flight_max=3, batch_messages=1)
    confirm(accumulator)
    for _ in range(4):
        accumulator.add(b"x", 0.0)
    sent = []
    for _ in range(3):
        sent.append(take(accumulator))
        accumulator.mark_sent(sent[-1])
    for batch in reversed(sent):
        accumulator.lose(batch, ConnectionFailed("killed"), sent=True, now_s=0.0)
    assert accumulator.next(0.0) is None
    wait_s = accumulator.wait_s(0.0)
    assert wait_s is not None
    assert 0 < wait_s <= 0.1
    first = take(accumulator, wait_s)
    assert first is sent[0]
    accumulator.mark_sent(first)
    assert accumulator.next(9.0) is None
    accumulator.acknowledge(first, duplicate=True)
    assert accumulator.next(9.0) is sent[1]


def test_retry_after_is_respected():
    accumulator = make()
    accumulator.add(b"x", 0.0)
    refusal = error_of("POST s", 429, {"retry-after": "7"}, b"")
    accumulator.refuse(take(accumulator), refusal, 100.0)
    assert accumulator.wait_s(100.0) == 7.0
    assert accumulator.next(106.9) is None
    assert accumulator.next(107.0) is not None


def test_a_fenced_producer_fails_and_returns_the_unstored_messages():
    accumulator = make(batch_messages=1)
    accumulator.add(b"a", 0.0)
    accumulator.add(b"b", 0.0)
    stale = error_of("POST s", 403, {"producer-epoch": "5"}, b"")
    accumulator.refuse(take(accumulator), stale, 0.0)
    assert [failed.messages for failed in accumulator.failures] == [[b"a"], [b"b"]]
    assert all(isinstance(failed.error, StaleEpoch) for failed in accumulator.failures)
    with pytest.raises(ProducerClosed) as caught:
        accumulator.add(b"c", 0.0)
    assert caught.value.__cause__ is stale


def test_a_claim_takes_the_next_epoch_from_seq_zero():
    accumulator = make(auto_claim=True, batch_messages=1)
    accumulator.add(b"a", 0.0)
    accumulator.add(b"b", 0.0)
    accumulator.refuse(take(accumulator), error_of("POST s", 403, {"producer-epoch": "5"}, b""), 0.0)
    batch = take(accumulator)
    assert (accumulator.epoch, batch.seq, batch.messages) == (6, 0, [b"a"])


def test_a_claim_does_not_repeat_messages_that_the_old_epoch_may_have_stored():
    world = World(make(auto_claim=True, batch_messages=1), Server())
    world.add(b"a")
    world.add(b"b")
    world.send()
    world.arrive(0)
    world.break_reply(0)
    world.server.fence(5)
    world.finish()
    assert world.server.stored == [b"a", b"b"]
    (failed,) = world.accumulator.failures
    assert (failed.messages, type(failed.error)) == ([b"a"], OutcomeUnknown)


def test_batches_are_not_renumbered_while_an_old_number_may_still_arrive():
    world = World(make(batch_messages=3, in_flight_max=3), Server(largest=2))
    world.add(b"first")
    world.accumulator.flush()
    world.finish()
    for message in (b"a", b"b", b"c", b"d"):
        world.add(message)
    world.accumulator.flush()
    world.send()
    assert len(world.sent) == 2
    world.break_request(1, arrives=True)
    world.finish()
    world.arrive_late(0)
    check_outcome(world)
    assert world.accumulator.ended is not None


def test_a_duplicate_at_the_start_is_counted_or_leads_to_a_claim():
    accumulator = make()
    accumulator.add(b"a", 0.0)
    accumulator.acknowledge(take(accumulator), duplicate=True)
    assert (accumulator.duplicates, accumulator.settled) == (1, 1)
    claiming = make(auto_claim=True)
    claiming.add(b"a", 0.0)
    claiming.acknowledge(take(claiming), duplicate=True)
    assert take(claiming).messages == [b"a"]
    assert claiming.epoch == 1


def test_two_producers_that_claim_from_each_other_give_up_eventually():
    accumulator = make(auto_claim=True)
    accumulator.add(b"a", 0.0)
    for _ in range(100):
        batch = accumulator.next(0.0)
        if batch is None:
            break
        accumulator.refuse(batch, error_of("POST s", 403, {"producer-epoch": str(accumulator.epoch + 1)}, b""), 0.0)
    assert "claimed" in str(accumulator.failures[0].error)


def test_retries_are_limited_and_the_outcome_of_sent_messages_is_unknown():
    accumulator = make(retries=Retries(attempts_max=2, delay_s=0.1), batch_messages=1)
    accumulator.add(b"sent", 0.0)
    accumulator.add(b"never sent", 0.0)
    for now_s in (0.0, 10.0):
        accumulator.lose(take(accumulator, now_s), ConnectionFailed("gone"), sent=True, now_s=now_s)
    sent, never_sent = accumulator.failures
    assert isinstance(sent.error, OutcomeUnknown)
    assert type(never_sent.error) is ConnectionFailed
    assert (sent.messages, never_sent.messages) == ([b"sent"], [b"never sent"])


def test_a_single_message_that_is_too_large_fails_alone():
    accumulator = make(batch_messages=1)
    for message in (b"huge", b"small"):
        accumulator.add(message, 0.0)
    accumulator.refuse(take(accumulator), error_of("POST s", 413, {}, b""), 0.0)
    batch = take(accumulator)
    assert (batch.seq, batch.messages) == (0, [b"small"])
    assert [failed.messages for failed in accumulator.failures] == [[b"huge"]]


def test_a_stream_closed_by_another_client_fails_the_producer():
    accumulator = make()
    accumulator.add(b"a", 0.0)
    accumulator.refuse(take(accumulator), error_of("POST s", 409, {"stream-closed": "true"}, b""), 0.0)
    assert isinstance(accumulator.failures[0].error, StreamClosed)
    assert accumulator.idle


def test_the_buffer_is_limited():
    accumulator = make(buffer_bytes=10, batch_bytes=4)
    while not accumulator.full:
        accumulator.add(b"123", 0.0)
    assert accumulator.buffered == 12
    accumulator.acknowledge(take(accumulator), duplicate=False)
    assert not accumulator.full


@pytest.mark.parametrize(
    "rules",
    [
        {"linger_s": -1},
        {"batch_bytes": 0},
        {"batch_bytes": -1},
        {"batch_messages": 0},
        {"batch_messages": -1},
        {"buffer_bytes": 0},
        {"in_flight_max": 0},
        {"in_flight_max": 1_000},
        {"epoch": -1},
    ],
)
def test_invalid_rules_are_refused(rules):
    with pytest.raises(BadArgument, match=next(iter(rules))):
        make(**rules)


def test_the_default_rules_are_accepted():
    assert ProducerConfig().in_flight_max == 5
