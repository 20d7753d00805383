"""The public names, the equality of both clients, and the cost of the import."""

import inspect
import subprocess
import sys

import pytest

import mainstem.client
from mainstem.client import AsyncIdempotentProducer, AsyncStreams, IdempotentProducer, Streams

NAMES = [
    "Appended",
    "AsyncIdempotentProducer",
    "AsyncStreams",
    "BadArgument",
    "BadRequest",
    "Batch",
    "BodyTooLarge",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "ContentTypeMismatch",
    "Failed",
    "Forbidden",
    "IdempotentProducer",
    "InvalidResponse",
    "NotFound",
    "OfflineClient",
    "OffsetGone",
    "OutcomeUnknown",
    "ProducerClosed",
    "ProducerGap",
    "RateLimited",
    "Response",
    "ResponseError",
    "Retries",
    "Retry",
    "SequenceRegression",
    "ServerFailed",
    "StaleEpoch",
    "StreamClosed",
    "StreamExists",
    "StreamGone",
    "StreamInfo",
    "Streams",
    "TailMoved",
    "TimedOut",
    "TooMuchData",
    "Unauthorized",
    "Unavailable",
    "UnreadableMessage",
]


def test_the_public_names_are_exactly_these():
    assert sorted(mainstem.client.__all__) == NAMES
    assert set(dir(mainstem.client)) >= set(NAMES)
    for name in NAMES:
        assert getattr(mainstem.client, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Nothing"):
        mainstem.client.Nothing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy():
    script = (
        "import sys, mainstem.client; print([name for name in sys.modules if name in {'httpx2', 'asyncio', 'ssl'}])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


@pytest.mark.parametrize(("blocking", "twin"), [(Streams, AsyncStreams), (IdempotentProducer, AsyncIdempotentProducer)])
def test_twins_have_the_same_methods_in_the_same_order_with_the_same_parameters(blocking, twin):
    mine, other = public(blocking), public(twin)
    assert list(mine) == list(other)
    for name in mine:
        ours, theirs = mine[name].parameters.values(), other[name].parameters.values()
        assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
