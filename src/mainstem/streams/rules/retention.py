"""Retention: how much of a stream is kept, by age, bytes or messages."""

import re
from collections.abc import Sequence

from mainstem import limits
from mainstem.errors import BadHeader
from mainstem.log.records import Outline
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.states import Retention, StreamState

DIRECTIVE = re.compile(r"(max-age|max-bytes|max-messages)=([1-9][0-9]{0,15})")


def parse_retention(text: str) -> Retention:
    """Parse `Stream-Retention: max-age=3600, max-bytes=1048576, max-messages=1000`, with one or more of the three."""
    values: dict[str, int] = {}
    for item in text.split(","):
        match = DIRECTIVE.fullmatch(item.strip())
        if match is None or match[1] in values or int(match[2]) > limits.INTEGER_MAX:
            raise BadHeader(
                "Stream-Retention must list max-age, max-bytes or max-messages, each at most once, "
                "as in max-age=3600, max-bytes=1048576"
            )
        values[match[1]] = int(match[2])
    if values.get("max-age", 0) > limits.TTL_S_MAX:
        raise BadHeader(f"max-age in Stream-Retention must be at most {limits.TTL_S_MAX} seconds")
    return Retention(values.get("max-age"), values.get("max-bytes"), values.get("max-messages"))


def format_retention(retention: Retention) -> str:
    parts = [
        ("max-age", retention.max_age_s),
        ("max-bytes", retention.max_bytes),
        ("max-messages", retention.max_messages),
    ]
    return ", ".join(f"{name}={value}" for name, value in parts if value is not None)


def find_surplus(state: StreamState, oldest: Sequence[Outline], now_us: int) -> Sequence[Outline]:
    """Return the oldest records that the policy does not keep. The newest record always stays, so that one offset
    remains readable."""
    policy = state.retention
    assert policy is not None
    bytes_kept, messages_kept = state.tail - state.earliest, state.messages
    for number, record in enumerate(oldest):
        too_old = policy.max_age_s is not None and record.committed_at_us < now_us - policy.max_age_s * SECOND_US
        too_many = (policy.max_bytes is not None and bytes_kept > policy.max_bytes) or (
            policy.max_messages is not None and messages_kept > policy.max_messages
        )
        if not (too_old or too_many) or record.end >= state.tail:
            return oldest[:number]
        bytes_kept -= record.end - record.start
        messages_kept -= record.messages
    return oldest


def find_before(state: StreamState, oldest: Sequence[Outline], position: int) -> Sequence[Outline]:
    """Return the oldest records that end at or before a position. The newest record stays here too."""
    for number, record in enumerate(oldest):
        if record.end > position or record.end >= state.tail:
            return oldest[:number]
    return oldest
