"""The jobs of the load generator. The runner passes one as a JSON argument, and gets its figures back."""

from __future__ import annotations

from typing import Literal

import msgspec

Figures = dict[str, float]
Content = Literal["json", "bytes"]
LiveMode = Literal["sse", "long-poll"]


class Job(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job. It must end within `limit_s`."""

    limit_s: float = 120.0


class Load(Job, frozen=True, kw_only=True):
    """A job that talks to one server on the loopback address. With `pid` it can measure what the server uses."""

    port: int
    pid: int | None = None


class Append(Load, frozen=True, kw_only=True):
    """Appends in a closed loop: every connection has one request in flight.

    The job creates its streams, unless `stream` names an existing one.
    """

    connections: int
    streams: int = 1
    stream: str | None = None
    content: Content = "bytes"
    messages: int = 1
    producers: bool = False
    seconds: float
    warmup_s: float


class AppendBeside(Append, frozen=True, kw_only=True):
    """An Append job beside idle SSE subscribers, which also measures the memory of the server."""

    subscribers: int


class Steady(Load, frozen=True, kw_only=True):
    """Appends to an existing stream at fixed times, however fast the server answers."""

    stream: str
    appends_per_s: float
    seconds: float


class Create(Load, frozen=True, kw_only=True):
    """Creates streams, each with one 100-byte message."""

    streams: int


class Touch(Load, frozen=True, kw_only=True):
    """Reads each stream of a Create job once."""

    streams: int


class Grow(Load, frozen=True, kw_only=True):
    """Appends messages of 100 bytes to the streams of a Create job, in turn."""

    streams: int
    appends: int


class Fill(Load, frozen=True, kw_only=True):
    """Creates one stream and fills it with identical appends of `messages` messages of 100 bytes."""

    stream: str
    content: Content
    appends: int
    messages: int


class CatchUp(Load, frozen=True, kw_only=True):
    """Reads a filled stream from its start until up to date: the first pass, and then repeatedly."""

    stream: str
    content: Content
    messages: int
    seconds: float


class ReadOnce(Load, frozen=True, kw_only=True):
    """Reads a filled stream once, without a pass that checks it first: the server does nothing else."""

    stream: str
    payload_bytes: int
    live: bool = False


class ReadLast(Load, frozen=True, kw_only=True):
    """Appends one message to a JSON stream, then reads just that message repeatedly."""

    stream: str
    seconds: float


class FanOut(Load, frozen=True, kw_only=True):
    """Connects live subscribers to one stream, and measures the time from an append to each of them.

    With `write_port`, the appends go to another node of the same log.
    """

    mode: LiveMode
    subscribers: int
    seconds: float
    write_port: int | None = None


class Idle(Load, frozen=True, kw_only=True):
    """Opens idle SSE connections and measures what they add to the memory of the server."""

    connections: int


class Forks(Load, frozen=True, kw_only=True):
    """Forks a filled JSON stream `forks` times at its end, and as often at its middle."""

    stream: str
    payload_bytes: int
    forks: int


class Subscribe(Load, frozen=True, kw_only=True):
    """Creates pull-wake subscriptions that match `stream`, then the stream with a message, and waits for all wakes."""

    stream: str
    pattern: str
    subscriptions: int


class SyncSubmit(Load, frozen=True, kw_only=True):
    """Submits single events in a closed loop. Each client has its own partition, or all share and follow one."""

    clients: int
    in_flight: int
    shared: bool = False
    seconds: float
    warmup_s: float


class SyncFanOut(Load, frozen=True, kw_only=True):
    """Submits events at a steady rate, and measures the time of each until it reaches each subscriber."""

    subscribers: int
    events_per_s: float
    seconds: float


class SyncFill(Load, frozen=True, kw_only=True):
    """Submits batches of events to many partitions and, spread evenly among them, `kept` more to `partition`."""

    events: int
    partition: str
    kept: int


class SyncPage(Load, frozen=True, kw_only=True):
    """Reads all events of a partition in one page, repeatedly."""

    partition: str
    events: int
    seconds: float


class PlainLoop(Job, frozen=True, kw_only=True):
    """Commits one event after the other to its own SQLite file, as a server without group commit would."""

    path: str
    seconds: float


class Hash(Job, frozen=True, kw_only=True):
    """Measures the canonical hash of an event."""

    seconds: float


AnyJob = (
    Append
    | AppendBeside
    | Steady
    | Create
    | Touch
    | Grow
    | Fill
    | CatchUp
    | ReadOnce
    | ReadLast
    | FanOut
    | Idle
    | Forks
    | Subscribe
    | SyncSubmit
    | SyncFanOut
    | SyncFill
    | SyncPage
    | PlainLoop
    | Hash
)


def encode_job(job: AnyJob) -> str:
    return msgspec.json.encode(job).decode()


def decode_job(text: str) -> AnyJob:
    job: AnyJob = msgspec.json.decode(text, type=AnyJob)
    return job


def encode_figures(figures: Figures) -> str:
    return msgspec.json.encode(figures).decode()


def decode_figures(text: bytes) -> Figures:
    return msgspec.json.decode(text, type=Figures)
