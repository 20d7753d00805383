"""What the runner can ask of the load generator: a job goes out as one JSON argument, figures come back."""

from __future__ import annotations

from typing import Literal

import msgspec

Figures = dict[str, float]
Content = Literal["json", "bytes"]
LiveMode = Literal["sse", "long-poll"]


class Job(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job talks to one server on the loopback address and must end within `limit_s`."""

    port: int
    limit_s: float = 120.0


class Append(Job, frozen=True, kw_only=True):
    """Appends in a closed loop: every connection has one request in flight."""

    connections: int
    streams: int
    content: Content = "bytes"
    messages: int = 1
    producers: bool = False
    seconds: float
    warmup_s: float


class Create(Job, frozen=True, kw_only=True):
    """Creates streams, each with one 100-byte message."""

    streams: int


class Touch(Job, frozen=True, kw_only=True):
    """Reads each stream of a Create job once."""

    streams: int


class Fill(Job, frozen=True, kw_only=True):
    """Creates one stream and fills it with equal appends of `messages` messages of 100 bytes."""

    stream: str
    content: Content
    appends: int
    messages: int


class CatchUp(Job, frozen=True, kw_only=True):
    """Reads a filled stream from its start until up to date, again and again."""

    stream: str
    content: Content
    messages: int
    seconds: float


class ReadOnce(Job, frozen=True, kw_only=True):
    """Reads a filled stream once, without the checking pass: nothing but the read touches the server."""

    stream: str
    payload_bytes: int
    live: bool = False


class ReadLast(Job, frozen=True, kw_only=True):
    """Appends one message to a JSON stream, then reads just that message again and again."""

    stream: str
    seconds: float


class FanOut(Job, frozen=True, kw_only=True):
    """Holds live subscribers on one stream and times the way from an append to each of them."""

    mode: LiveMode
    subscribers: int
    seconds: float


class Idle(Job, frozen=True, kw_only=True):
    """Opens idle SSE connections and measures what they add to the memory of the process tree of `pid`."""

    pid: int
    connections: int


AnyJob = Append | Create | Touch | Fill | CatchUp | ReadOnce | ReadLast | FanOut | Idle


def encode_job(job: AnyJob) -> str:
    return msgspec.json.encode(job).decode()


def decode_job(text: str) -> AnyJob:
    job: AnyJob = msgspec.json.decode(text, type=AnyJob)
    return job


def encode_figures(figures: Figures) -> str:
    return msgspec.json.encode(figures).decode()


def decode_figures(text: bytes) -> Figures:
    return msgspec.json.decode(text, type=Figures)
