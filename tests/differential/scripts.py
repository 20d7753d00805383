"""Random scripts of requests. A script depends only on its seed, so a difference can be repeated."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

STEPS: Final = 25
STREAMS: Final = 3
OFFSET: Final = "@offset"
"""Stands for an offset that the server has reported for the stream; a number follows, which chooses one of them."""
ETAG: Final = "@etag"
"""Stands for the last ETag that the server has reported for the stream."""

TEXT: Final = "text/plain"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
CONTENT_TYPES: Final = (TEXT, JSON, JSON, BYTES, "text/plain; charset=utf-8", "Application/JSON")
BODIES: Final = (b"a", b"hello", b"", b"\xc3\xa9\n", b"x" * 300)
JSON_BODIES: Final = (b"1", b'{"a": 1}', b"[1,2]", b'[[1], "x"]', b"[]", b" [ 1 , 2 ] ", b"null", b'"\\u00e9"', b"[[]]")
BAD_JSON: Final = (b"{", b"[1,", b"nope", b"[1] 2", b"", b"NaN", b"\xff", b"{'a':1}")
NUMBERS: Final = (
    "0",
    "0",
    "1",
    "1",
    "2",
    "3",
    "9007199254740991",
    "9007199254740992",
    "-1",
    "01",
    "x",
    "",
    "1.0",
    "+1",
)
LIFETIMES: Final = ("3600", "0060", "-1", "1.5", "abc", "+5", "9007199254740992", "")
TIMES: Final = ("2099-01-31T12:00:00Z", "2099-01-31T12:00:00.500+01:00", "tomorrow", "2099-01-31")
OFFSETS: Final = ("-1", "now", "", "0", "abc", "-2", "0_0", "9999999999999999_9999999999999999", "a b", "NOW", "-1,now")


@dataclass(frozen=True)
class Step:
    """One request. `stream` names a stream of the script; every server gets the same name."""

    method: str
    stream: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def source(self) -> str | None:
        """The stream that the step forks."""
        found = re.search(r"\{(\w+)\}", self.header("stream-forked-from") or "")
        return None if found is None else found[1]

    def __str__(self) -> str:
        fields = "".join(f" {name}: {value!r}" for name, value in self.headers)
        return f"{self.method} {self.stream}{self.query}{fields} {self.body!r}"


def request(method: str, stream: str, query: str = "", body: bytes = b"", **headers: str | None) -> Step:
    """Return a step; the keywords are headers, with underscores for hyphens, and None for an absent one."""
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items() if value is not None)
    return Step(method, stream, query, fields, body)


@dataclass
class Writer:
    """Writes a script. It remembers what it has asked for, so that most steps make sense."""

    chance: Random
    steps: list[Step] = field(default_factory=list)
    content_types: dict[str, str] = field(default_factory=dict)
    created: dict[str, Step] = field(default_factory=dict)
    seqs: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    """The streams that hold data if they exist."""
    closed: set[str] = field(default_factory=set)

    def add(self, method: str, stream: str, query: str = "", body: bytes = b"", **headers: str | None) -> None:
        self.steps.append(request(method, stream, query, body, **headers))

    def pick(self, *choices: str | None) -> str | None:
        return self.chance.choice(choices)

    def often(self, share: float = 0.8) -> bool:
        return self.chance.random() < share

    # Creating

    def create(self, stream: str) -> None:
        content_type = self.chance.choice(CONTENT_TYPES)
        chance = self.chance
        body = b""
        if chance.random() < 0.3:
            body = chance.choice(JSON_BODIES + BAD_JSON[:2] if "json" in content_type.lower() else BODIES)
        closed = self.pick("true", "TRUE", "false", "yes", "") if chance.random() < 0.2 else None
        self.add(
            "PUT",
            stream,
            body=body,
            content_type=content_type if self.often(0.95) else self.pick(None, "", "nonsense"),
            stream_ttl=chance.choice(LIFETIMES[:1] * 4 + LIFETIMES) if chance.random() < 0.2 else None,
            stream_expires_at=chance.choice(TIMES) if chance.random() < 0.1 else None,
            stream_closed=closed,
        )
        if stream not in self.content_types:
            self.content_types[stream] = content_type
            self.created[stream] = self.steps[-1]
            if (closed or "").lower() == "true":
                self.closed.add(stream)

    def create_again(self, stream: str) -> None:
        if stream in self.created and self.often(0.6):
            self.steps.append(self.created[stream])
        else:
            self.create(stream)

    def fork(self, stream: str) -> None:
        source = f"s{self.chance.randrange(STREAMS)}"
        fork = f"f{self.chance.randrange(2)}"
        self.add(
            "PUT",
            fork,
            content_type=self.content_types.get(source) if self.often(0.3) else None,
            stream_forked_from=f"/v1/stream/{{{source}}}",
            stream_fork_offset=self.chance.choice((f"{OFFSET}0", f"{OFFSET}1", f"{OFFSET}2", "-1", "zz"))
            if self.often(0.7)
            else None,
            stream_fork_sub_offset=self.pick("0", "1", "2", "99", "-1", "x") if self.often(0.15) else None,
        )

    # Writing

    def append(self, stream: str) -> None:
        content_type = self.content_types.get(stream, TEXT)
        json = "json" in content_type.lower()
        body = self.chance.choice((JSON_BODIES * 2 + BAD_JSON) if json else BODIES)
        if not self.often(0.92):
            content_type = self.chance.choice((*CONTENT_TYPES, "", "nonsense"))
        self.add(
            "POST",
            stream,
            body=body,
            content_type=content_type if self.often(0.95) else None,
            stream_seq=self.chance.choice(("a", "b", "c", "10", "9", "")) if self.chance.random() < 0.12 else None,
            stream_closed=self.chance.choice(("true", "false", "True", "1")) if self.chance.random() < 0.08 else None,
        )
        if body in (JSON_BODIES[:4] if json else BODIES[:2]) and self.steps[-1].headers == (
            ("content-type", content_type),
        ):
            self.filled.add(stream)

    def produce(self, stream: str) -> None:
        """Append as a producer: mostly the next number, a retry or a gap, and at times with invalid headers."""
        content_type = self.content_types.get(stream, TEXT)
        producer = self.chance.choice(("p", "q"))
        epoch, seq = self.seqs.get((stream, producer), (0, -1))
        move = self.chance.random()
        if move < 0.5:
            seq += 1
        elif move < 0.6:
            epoch, seq = epoch + 1, 0
        elif move < 0.7:
            epoch -= 1
        elif move < 0.8:
            seq += self.chance.randint(2, 3)
        if move < 0.6:
            self.seqs[stream, producer] = epoch, seq
        sense = self.often(0.9)
        body = self.chance.choice(JSON_BODIES[:4] if "json" in content_type.lower() else BODIES[:2])
        self.add(
            "POST",
            stream,
            body=body if self.often(0.95) else b"",
            content_type=content_type,
            producer_id=producer if sense else self.pick(None, "", producer),
            producer_epoch=str(max(epoch, 0)) if sense else self.pick(None, *NUMBERS),
            producer_seq=str(max(seq, 0)) if sense else self.pick(None, *NUMBERS),
            stream_closed="true" if self.chance.random() < 0.05 else None,
        )

    def close(self, stream: str) -> None:
        content_type = self.content_types.get(stream, TEXT)
        body = b"" if self.often(0.6) else b"1"
        self.add(
            "POST",
            stream,
            body=body,
            content_type=content_type if body or self.often(0.3) else None,
            stream_closed="true",
        )
        self.closed.add(stream)

    def delete(self, stream: str) -> None:
        self.add("DELETE", stream)
        for known in (self.content_types, self.created):
            known.pop(stream, None)
        self.filled.discard(stream)
        self.closed.discard(stream)
        for key in [key for key in self.seqs if key[0] == stream]:
            del self.seqs[key]

    # Reading

    def read(self, stream: str) -> None:
        offset = self.chance.choice((*OFFSETS[:2], *(f"{OFFSET}{n}" for n in range(4)), self.chance.choice(OFFSETS)))
        query = self.chance.choice(("", f"?offset={offset}", f"?offset={offset}", f"?offset={offset}"))
        if not self.often(0.95):
            query = self.chance.choice(("?offset=-1&offset=now", "?live=sse", "?live=long-poll", "?offset=-1&live=x"))
        self.add("GET", stream, query.replace(" ", "%20"))

    def read_again(self, stream: str) -> None:
        self.add("GET", stream, "?offset=-1")
        self.add(
            "GET", stream, "?offset=-1", if_none_match=self.chance.choice((ETAG, ETAG, "*", '"x"', f'"x", {ETAG}'))
        )

    def read_live(self, stream: str) -> None:
        """Read live only where a reply comes at once, whatever a server thinks of the steps before."""
        if stream in self.closed:
            self.add(
                "GET",
                stream,
                self.chance.choice(
                    ("?offset=-1&live=sse", f"?offset={OFFSET}0&live=sse", "?offset=now&live=long-poll")
                ),
            )
        elif stream in self.filled:
            self.add("GET", stream, "?offset=-1&live=long-poll")

    def head(self, stream: str) -> None:
        self.add("HEAD", stream)

    def call_otherwise(self, stream: str) -> None:
        self.add(self.chance.choice(("PATCH", "TRACE", "OPTIONS")), stream)


Move = Callable[[Writer, str], None]
MOVES: Final[Sequence[tuple[Move, int]]] = (
    (Writer.create, 3),
    (Writer.create_again, 2),
    (Writer.fork, 2),
    (Writer.append, 8),
    (Writer.produce, 6),
    (Writer.close, 1),
    (Writer.delete, 1),
    (Writer.read, 6),
    (Writer.read_again, 2),
    (Writer.read_live, 2),
    (Writer.head, 3),
    (Writer.call_otherwise, 1),
)


def write_script(seed: int) -> list[Step]:
    """Return the script with this seed. It begins with the creation of its streams."""
    writer = Writer(Random(seed))
    streams = [f"s{number}" for number in range(STREAMS)]
    for stream in streams:
        writer.create(stream)
    moves, weights = zip(*MOVES, strict=True)
    while len(writer.steps) < STEPS:
        stream = writer.chance.choice((*streams, "f0", "f1", "none") if writer.chance.random() < 0.25 else streams)
        writer.chance.choices(moves, weights)[0](writer, stream)
    return writer.steps
