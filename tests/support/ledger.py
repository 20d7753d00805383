"""A log in a dict, with streams and a subscription on it, and the commands that the tests run."""

from typing import Any

import msgspec

from mainstem.log.commands import View
from mainstem.log.records import CommittedId, Kind
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    LINKS,
    Config,
    Link,
    PutSubscription,
    Subscription,
    link_key,
    subscription_key,
)
from mainstem.streams.subscriptions.core.wakes import Acknowledge, Candidate, Claim, FencingToken, Wake, WakeResult

SECOND_US = 1_000_000
LEASE_S = 30
WEBHOOK = Config("webhook", pattern="e/*", webhook_url="https://worker.example/", lease_ttl_ms=LEASE_S * 1000)
PULL_WAKE = Config("pull-wake", pattern="e/*", wake_stream="wakes", lease_ttl_ms=LEASE_S * 1000)


class Ledger:
    """Runs one command per batch: no server, no disk. The subscription under test is `sub`, with the nonce `nonce`."""

    def __init__(self) -> None:
        self.states: dict[Any, Any] = {}
        self.records: list[Any] = []
        self.now_us = 1_000 * SECOND_US
        self._wakes = 0

    def run(self, command: Any) -> Any:
        view = View({key: self.states.get(key) for key in command.needs()}, CommittedId(len(self.records)), self.now_us)
        try:
            outcome = view.run(command)
        except Exception:
            assert not view.changes, "a refused command changes nothing"
            assert not view.records
            raise
        self.records += view.records
        for key, state in view.changes.items():
            if state is None:
                self.states.pop(key, None)
            else:
                # As a store would: this fails for a state that cannot be encoded and decoded again.
                self.states[key] = key.space.decode(key.space.encode(state))
        return outcome

    # Streams

    def create(self, path: str, data: bytes = b"", content_type: str = "text/plain", **fields: Any) -> None:
        self.run(Create(path, content_type, Messages(data, 1) if data else Messages(b"", 0), **fields))

    def append(self, path: str, data: bytes = b"x", content_type: str = "text/plain") -> None:
        self.run(Append(path, content_type, Messages(data, 1)))

    def stream(self, path: str) -> StreamState:
        state: StreamState = self.states[stream_key(path)]
        return state

    # The subscription

    @property
    def subscription(self) -> Subscription:
        state: Subscription = self.states[subscription_key("sub")]
        return state

    def put(self, config: Config, *streams: str, nonce: str = "nonce") -> bool:
        new: bool = self.run(PutSubscription("sub", nonce, config, streams, "http://server/v1/stream"))
        return new

    def link(self, path: str) -> Link | None:
        return self.states.get(link_key("nonce", path))

    def links(self) -> dict[str, Link]:
        return {key.name.partition("\0")[2]: state for key, state in self.states.items() if key.space is LINKS}

    def candidate(self, path: str) -> Candidate:
        """Return a candidate as the deliveries find it: with the start position of a link that is only implied."""
        stream = self.states.get(stream_key(path))
        if self.link(path) is not None or stream is None:
            return Candidate(path)
        since = self.subscription.created_id
        new = [r for r in self.records if r.topic == stream.topic and r.kind is Kind.APPEND and r.committed_id > since]
        return Candidate(path, stream.topic, new[0].start) if new else Candidate(path)

    # Wakes

    def wake(self, *paths: str, nonce: str = "nonce") -> WakeResult | None:
        self._wakes += 1
        wake_stream = self.subscription.config.wake_stream
        candidates = tuple(self.candidate(path) for path in paths)
        woken: WakeResult | None = self.run(Wake("sub", nonce, f"w_{self._wakes}", candidates, wake_stream))
        return woken

    def claim(self, *paths: str, worker: str = "ann", nonce: str = "nonce") -> WakeResult:
        self._wakes += 1
        candidates = tuple(self.candidate(path) for path in paths)
        woken: WakeResult = self.run(Claim("sub", nonce, worker, f"w_{self._wakes}", candidates))
        return woken

    @property
    def fencing(self) -> FencingToken:
        """The fencing token that the worker of the current wake presents."""
        state = self.subscription
        assert state.wake_id is not None
        return FencingToken(state.nonce, state.generation, state.generation, state.wake_id)

    def acknowledge(self, *acks: tuple[str, int], done: bool = False, fencing: FencingToken | None = None) -> bool:
        named = tuple((path, Offset(0, position)) for path, position in acks)
        candidates = tuple(self.candidate(path) for path in self.streams())
        more: bool = self.run(Acknowledge("sub", fencing or self.fencing, named, done, candidates=candidates))
        return more

    def streams(self) -> list[str]:
        return [
            key.name for key, state in self.states.items() if isinstance(state, StreamState) and key.name != "wakes"
        ]

    def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * SECOND_US)


def changed(fencing: FencingToken, **fields: Any) -> FencingToken:
    return msgspec.structs.replace(fencing, **fields)
