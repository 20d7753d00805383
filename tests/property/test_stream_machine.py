"""Whatever the requests and their batches, streams behave as the simplest model of the protocol does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainstem.errors import MainstemError, OffsetGone, StreamNotFound
from mainstem.log.commands import Command
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.append import Append, Appended
from mainstem.streams.commands.create import Create, Created, Lifetime
from mainstem.streams.commands.delete import Delete, Expire, Touch
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.rules.offsets import Offset, Sentinel
from mainstem.streams.states import ProducerTuple, StreamState, stream_key
from mainstem.testing.clock import START_US, FakeClock
from mainstem.testing.loops import new_runner
from mainstem.testing.store_contract import read_whole_log
from tests.property.stream_model import Outcome, Producer, StreamModel
from tests.support.examples import examples

pytestmark = pytest.mark.slow

PATHS = st.sampled_from(["a", "a/b", "é"])
TYPES = st.sampled_from(["text/plain", "text/plain", "Text/PLAIN; charset=utf-8", "application/octet-stream"])
DATA = st.binary(min_size=1, max_size=6)
PRODUCERS = st.tuples(st.sampled_from(["p", "q\0"]), st.integers(0, 2), st.integers(0, 3))
PAGE_BYTES = 7  # small, so that reads take several pages


@dataclass(frozen=True)
class CreateRequest:
    path: str
    content_type: str
    data: bytes
    closed: bool
    ttl_s: int | None
    expires_us: int | None

    def command(self, touched_us: int) -> Create:
        messages = Messages(self.data, 1) if self.data else NOTHING
        lifetime = Lifetime(self.ttl_s, self.expires_us, None if self.expires_us is None else str(self.expires_us))
        return Create(self.path, self.content_type, messages, self.closed, lifetime, touched_us=touched_us)

    def expect(self, model: StreamModel, now_us: int) -> Outcome:
        return model.create(self.path, now_us, self.content_type, self.data, self.closed, self.ttl_s, self.expires_us)


@dataclass(frozen=True)
class AppendRequest:
    path: str
    content_type: str
    data: bytes | None
    closes: bool
    seq: str | None
    producer: Producer | None

    def command(self, touched_us: int) -> Append:
        return Append(
            self.path,
            None if self.data is None else self.content_type,
            None if self.data is None else Messages(self.data, 1),
            self.closes,
            self.seq,
            None if self.producer is None else ProducerTuple(*self.producer),
            touched_us=touched_us,
        )

    def expect(self, model: StreamModel, now_us: int) -> Outcome:
        return model.append(self.path, now_us, self.content_type, self.data, self.closes, self.seq, self.producer)


@dataclass(frozen=True)
class EndRequest:
    path: str
    by_client: bool

    def command(self, touched_us: int) -> Delete | Expire:
        return (Delete if self.by_client else Expire)(self.path, touched_us)

    def expect(self, model: StreamModel, now_us: int) -> Outcome:
        return (model.delete if self.by_client else model.expire)(self.path, now_us)


Request = CreateRequest | AppendRequest | EndRequest

LIFETIMES = st.sampled_from(
    [(None, None), (None, None), (0, None), (5, None), (60, None), (None, START_US + 30_000_000)]
)
CREATES = st.builds(
    lambda path, content_type, data, closed, lifetime: CreateRequest(path, content_type, data, closed, *lifetime),
    PATHS,
    TYPES,
    st.just(b"") | DATA,
    st.sampled_from([False, False, False, True]),
    LIFETIMES,
)
APPENDS = st.builds(
    AppendRequest,
    PATHS,
    TYPES,
    DATA,
    st.sampled_from([False] * 7 + [True]),
    st.none() | st.sampled_from(["1", "10", "2", "é"]),
    st.none() | PRODUCERS,
)
CLOSES = st.builds(AppendRequest, PATHS, TYPES, st.none(), st.just(True), st.none(), st.none() | PRODUCERS)
ENDS = st.builds(EndRequest, PATHS, st.booleans())
# Many appends per deletion or expiry, or no stream would ever grow long.
REQUESTS: st.SearchStrategy[Request] = st.one_of(CREATES, CREATES, APPENDS, APPENDS, APPENDS, APPENDS, CLOSES, ENDS)


def describe(result: object) -> Outcome:
    """Describe the result of a command in the model's terms."""
    if isinstance(result, MainstemError):
        facts = result.facts
        told: dict[str, Callable[[], Outcome]] = {
            "producer_gap": lambda: (facts["expected_seq"],),
            "stale_epoch": lambda: (facts["current_epoch"],),
            "stream_closed": lambda: (parse_end(result.headers["Stream-Next-Offset"]),),
        }
        return (result.code, *told.get(result.code, tuple)())
    if isinstance(result, Created):
        return ("created" if result.new else "confirmed", tuple(result.state.next_offset))
    if isinstance(result, Appended):
        known = result.producer
        return (
            "wrote" if result.wrote else "settled",
            tuple(result.state.next_offset),
            None if known is None else (known.epoch, known.last_seq),
        )
    if isinstance(result, bool):
        return ("expired",) if result else ("left",)
    assert result is None
    return ("deleted",)


def parse_end(offset: str) -> tuple[int, int]:
    read_seq, position = offset.split("_")
    return int(read_seq), int(position)


class StreamsAgainstTheModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = new_runner()
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.model = StreamModel()
        self.runner.run(self.begin())

    async def begin(self) -> None:
        self.log = CommitLog(self.store, Live(), self.clock)
        self.log.start()
        self.streams = Streams(self.log, PAGE_BYTES)

    def teardown(self) -> None:
        self.runner.run(self.log.stop())
        self.runner.close()

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=6))
    def submit(self, requests: list[Request]) -> None:
        """Submit requests together: they share a batch, and still take effect one after the other."""
        commands: list[Command[Any]] = [request.command(self.streams.touched_us(request.path)) for request in requests]
        results = self.runner.run(self._submit_all(commands))
        for request, result in zip(requests, results, strict=True):
            assert describe(result) == request.expect(self.model, self.clock())
        self._settle_doubts()

    async def _submit_all(self, commands: list[Command[Any]]) -> list[Any]:
        return await asyncio.gather(*map(self.log.submit, commands), return_exceptions=True)

    def _settle_doubts(self) -> None:
        """Accept both outcomes of a valid request that changed nothing: the protocol lets it slide the TTL or not."""
        for path in self.model.lives:
            life = self.model.alive(path, self.clock())
            if life is not None and life.touched_in_doubt and life.ttl_s is not None:
                now = self.clock()
                expiry = self._expiry(path)
                assert expiry in (life.expires_us, now + life.ttl_s * 1_000_000)
                life.expires_us = expiry

    def _expiry(self, path: str) -> int | None:
        state: StreamState = self.runner.run(self.store.get(stream_key(path)))
        return lifecycle.expiry_us(state, self.streams.touched_us(path))

    @rule(seconds=st.sampled_from([1, 4, 5, 30, 60]))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def make_reads_durable(self) -> None:
        touches = self.streams.touches
        self.runner.run(self._submit_all([Touch(path, at_us) for path, at_us in touches.items()]))
        touches.clear()

    @rule(path=PATHS, position=st.integers(0, 30))
    def read(self, path: str, position: int) -> None:
        life = self.model.alive(path, self.clock())
        if life is None:
            with pytest.raises(StreamNotFound):
                self.runner.run(self.streams.find(path))
            return
        start = min(position, len(life.data))
        data, closed = self.runner.run(self._read_all(path, Offset(life.number, start)))
        assert data == life.data[start:]
        assert closed == life.closed
        self.model.slide(life, self.clock())

    async def _read_all(self, path: str, at: Offset) -> tuple[bytes, bool]:
        data = b""
        while True:
            state = await self.streams.find(path)
            self.streams.touch(path, state)
            page = await self.streams.read(state, self.streams.resolve(state, at))
            assert page.start == at
            assert len(page.data) == page.end.position - at.position <= PAGE_BYTES
            data += page.data
            at = page.end
            if page.up_to_date:
                return data, page.closed
            assert page.data

    @rule(path=PATHS)
    def offsets_of_an_earlier_life_read_nothing(self, path: str) -> None:
        life = self.model.alive(path, self.clock())
        if life is not None and life.number > 0:
            state = self.runner.run(self.streams.find(path))
            assert self.streams.resolve(state, Sentinel.BEGINNING) == (life.number, 0)
            with pytest.raises(OffsetGone):
                self.streams.resolve(state, Offset(life.number - 1, 0))

    @invariant()
    def every_change_has_the_next_committed_id(self) -> None:
        records = self.runner.run(self._whole_log())
        assert [record.committed_id for record in records] == list(range(1, self.model.committed + 1))
        assert self.store.head == self.model.committed

    async def _whole_log(self) -> list[Any]:
        return [record async for record in read_whole_log(self.store)]

    @invariant()
    def the_log_alone_tells_every_streams_data(self) -> None:
        for path, lives in self.model.lives.items():
            state: StreamState = self.runner.run(self.store.get(stream_key(path)))
            assert state.read_seq == lives[-1].number
            chunk = self.runner.run(self.store.read(state.topic, 0, 1 << 30, 1 << 30))
            assert (b"" if chunk is None else chunk.data) == lives[-1].data


TestStreamsAgainstTheModel = StreamsAgainstTheModel.TestCase
TestStreamsAgainstTheModel.settings = settings(max_examples=examples(150), stateful_step_count=30)
