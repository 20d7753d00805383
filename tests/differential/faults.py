"""What is wrong with a refused step: in itself, whatever the stream is, and because of the stream."""

import json
import re
from collections.abc import Mapping
from typing import Final

from tests.differential.exchanges import Reply
from tests.differential.scripts import OFFSET, TIMES, Step

READ: Final = re.compile(rf"(\?offset=(-1|now|{OFFSET}\d)(&live=(sse|long-poll))?)?")
FORK_OFFSET: Final = re.compile(rf"-1|{OFFSET}\d")
NUMBER: Final = re.compile(r"0|[1-9]\d{0,15}")
NUMBER_MAX: Final = 2**53 - 1
PRODUCER: Final = ("producer-id", "producer-epoch", "producer-seq")
TRUE: Final = "true"


def is_malformed(step: Step) -> bool:
    """Return whether the step deserves 400 for its own sake."""
    match step.method:
        case "GET":
            return READ.fullmatch(step.query) is None
        case "POST":
            return _has_bad_body(step) or _has_bad_producer(step)
        case "PUT":
            return _has_bad_json(step) or _has_bad_lifetime(step) or _has_bad_fork(step)
    return False


def list_conflicts(step: Step, found: Mapping[str, Reply]) -> set[int]:
    """Return the statuses with which the stream, or the source of a fork, can refuse the step.

    `found` holds the replies to HEAD.
    """
    stream = found[step.stream]
    if step.method == "PUT":
        conflicts = {409} if stream.status != 404 else set()
        return conflicts if step.source is None else conflicts | _list_conflicts_of_fork(step, found[step.source])
    if stream.status != 200:
        return {stream.status}
    if step.method == "POST" and (_is_closed(stream) or _has_other_type(step, stream) or step.header("stream-seq")):
        return {409}
    return set()


def _list_conflicts_of_fork(step: Step, source: Reply) -> set[int]:
    if source.status == 404:
        return {404}
    other_type = step.header("content-type") is not None and _has_other_type(step, source)
    return {409} if source.status == 410 or other_type else set()


def _is_closed(stream: Reply) -> bool:
    return stream.headers.get("stream-closed") == TRUE


def _has_other_type(step: Step, stream: Reply) -> bool:
    return _media_type(step.header("content-type")) != _media_type(stream.headers.get("content-type"))


def _media_type(text: str | None) -> str:
    return (text or "").partition(";")[0].strip().lower()


# Bodies


def _has_bad_body(step: Step) -> bool:
    if not step.body:
        return (step.header("stream-closed") or "").lower() != TRUE
    return not step.header("content-type") or _has_bad_json(step)


def _has_bad_json(step: Step) -> bool:
    if not step.body or _media_type(step.header("content-type")) != "application/json":
        return False
    try:
        value = json.loads(step.body, parse_constant=_refuse)
    except ValueError:
        return True
    return step.method == "POST" and value == []


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Headers


def _has_bad_producer(step: Step) -> bool:
    values = [step.header(name) for name in PRODUCER]
    if values == [None, None, None]:
        return False
    return not values[0] or any(
        value is None or NUMBER.fullmatch(value) is None or int(value) > NUMBER_MAX for value in values[1:]
    )


def _has_bad_lifetime(step: Step) -> bool:
    ttl, time = step.header("stream-ttl"), step.header("stream-expires-at")
    bad_ttl = ttl is not None and (NUMBER.fullmatch(ttl) is None or int(ttl) > NUMBER_MAX)
    return bad_ttl or (time is not None and (ttl is not None or time not in TIMES[:2]))


def _has_bad_fork(step: Step) -> bool:
    """A sub-offset may be too large for its source, so that only 0 is always valid."""
    offset = step.header("stream-fork-offset")
    bad_offset = offset is not None and FORK_OFFSET.fullmatch(offset) is None
    return bad_offset or step.header("stream-fork-sub-offset") not in (None, "0")
