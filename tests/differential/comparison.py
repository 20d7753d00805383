"""Compares the replies of two servers to the same script."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.differential.exchanges import Peer, Reply
from tests.differential.scripts import Step, request

HEADERS: Final = (
    "content-type",
    "stream-closed",
    "stream-up-to-date",
    "stream-ttl",
    "stream-expires-at",
    "stream-sse-data-encoding",
    "producer-epoch",
    "producer-seq",
    "producer-expected-seq",
    "producer-received-seq",
    "cache-control",
)
OPAQUE: Final = ("stream-next-offset", "etag")
"""Headers whose values each server chooses: equal on one server, they must be equal on the other."""
PRESENT: Final = ("stream-cursor", "location")
GONE: Final = {404, 410}
WRITES: Final = ("PUT", "POST", "DELETE")
CURSOR: Final = re.compile(rb'"streamCursor":"[0-9]+",?')
NEXT_OFFSET: Final = re.compile(rb'"streamNextOffset":"([^"]+)"')
EVENT_ID: Final = re.compile(rb"^id:.*\n", re.MULTILINE)


class Difference(NamedTuple):
    """One way in which two replies to a step differ."""

    peer: str
    step: Step
    field: str
    ours: str
    theirs: str
    our_status: int
    their_status: int
    earlier: tuple[Step, ...]
    """The steps before this one."""
    found: Mapping[str, Reply]
    """What Mainstem replies to HEAD, for the stream and the source of a new fork, if both servers refuse the step."""

    def writes_before(self) -> list[Step]:
        """Return the earlier steps that could have changed the stream, or the source of a new fork."""
        concerned = (self.step.stream, self.step.source)
        return [step for step in self.earlier if step.stream in concerned and step.method in WRITES]

    def __str__(self) -> str:
        return (
            f"{self.step}\n    {self.field}: ours {self.ours!r}, {self.peer}'s {self.theirs!r} "
            f"(statuses {self.our_status} and {self.their_status})"
        )


class Pairs:
    """Which opaque values of two servers stand for the same thing."""

    def __init__(self) -> None:
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}

    def match(self, ours: str, theirs: str) -> bool:
        """Return whether the values can stand for the same thing, which they do from now on."""
        return self._theirs.setdefault(ours, theirs) == theirs and self._ours.setdefault(theirs, ours) == ours


def compare_script(ours: Peer, theirs: Peer, name: str, script: Sequence[Step]) -> Iterator[Difference]:
    """Yield the differences. After a step that leaves a stream in two different states, the stream is left alone."""
    pairs = Pairs()
    left: set[str] = set()
    for peer in (ours, theirs):
        peer.begin(name)
    for number, step in enumerate(script):
        concerned = {step.stream} if step.source is None else {step.stream, step.source}
        if left & concerned:
            left |= concerned
            continue
        mine, other = ours.send(step), theirs.send(step)
        for name in OPAQUE:
            if name in mine.headers and name in other.headers:
                ours.learn(step, mine, name)
                theirs.learn(step, other, name)
        if not _left_equal(step, mine, other):
            left |= concerned
        refused = not mine.accepted and not other.accepted and mine.status != other.status
        found = {stream: ours.send(request("HEAD", stream)) for stream in concerned} if refused else {}
        statuses, earlier = (mine.status, other.status), tuple(script[:number])
        for field, my_value, other_value in compare_replies(pairs, step, mine, other):
            yield Difference(theirs.name, step, field, my_value, other_value, *statuses, earlier, found)


def _left_equal(step: Step, ours: Reply, theirs: Reply) -> bool:
    """Return whether the stream can be in the same state on both servers."""
    if step.method in WRITES and ours.headers.get("stream-closed") != theirs.headers.get("stream-closed"):
        return False
    if ours.accepted == theirs.accepted:
        return True
    return step.method not in WRITES and not {ours.status, theirs.status} & GONE


def compare_replies(pairs: Pairs, step: Step, ours: Reply, theirs: Reply) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each part that differs, and its two values."""
    if ours.status != theirs.status:
        yield "status", str(ours.status), str(theirs.status)
        return
    for name in HEADERS:
        if (mine := _header(ours, name)) != (other := _header(theirs, name)):
            yield name, mine, other
    for name in PRESENT:
        if (name in ours.headers) != (name in theirs.headers):
            yield name, _header(ours, name), _header(theirs, name)
    for name in OPAQUE:
        mine, other = _header(ours, name), _header(theirs, name)
        if not (
            pairs.match(f"{name} {step.stream} {mine}", f"{name} {step.stream} {other}")
            if mine and other
            else mine == other
        ):
            yield name, mine, other
    if ours.accepted and _body(ours) != _body(theirs):
        yield "body", _body(ours).decode("utf-8", "replace"), _body(theirs).decode("utf-8", "replace")


def _header(reply: Reply, name: str) -> str:
    value = reply.headers.get(name, "")
    if name == "content-type":
        # The text of an error is for people; only the protocol's own replies are compared.
        return value.lower().replace(" ", "") if reply.accepted else ""
    return value


def _body(reply: Reply) -> bytes:
    if reply.headers.get("content-type", "").startswith("text/event-stream"):
        return NEXT_OFFSET.sub(b"", CURSOR.sub(b"", EVENT_ID.sub(b"", reply.body)))
    return reply.body
