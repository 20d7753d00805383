"""Retention: a stream that keeps only its newest part, by age, bytes or messages."""

import re
from collections.abc import Sequence

import msgspec

from mainstem import limits
from mainstem.errors import BadHeader
from mainstem.log.commands import Freeing, Key, View
from mainstem.log.pruned import PRUNED_KEY, advance_pruned
from mainstem.log.records import CommittedId, Kind, Outline, TopicId
from mainstem.streams.commands.delete import Sizeless
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.states import Retention, RetentionCheck, StreamState, retention_key, stream_key

DIRECTIVE = re.compile(r"(max-age|max-bytes|max-messages)=([1-9][0-9]{0,15})")


def parse_retention(text: str) -> Retention:
    """`Stream-Retention: max-age=3600, max-bytes=1048576, max-messages=1000`, any of them."""
    values: dict[str, int] = {}
    for item in text.split(","):
        match = DIRECTIVE.fullmatch(item.strip())
        if match is None or match[1] in values or int(match[2]) > limits.INTEGER_MAX:
            raise BadHeader("Stream-Retention is a list of max-age, max-bytes and max-messages, each =N once")
        values[match[1]] = int(match[2])
    if values.get("max-age", 0) > limits.TTL_S_MAX:
        raise BadHeader(f"max-age is more than {limits.TTL_S_MAX} seconds")
    return Retention(values.get("max-age"), values.get("max-bytes"), values.get("max-messages"))


def format_retention(retention: Retention) -> str:
    parts = [
        ("max-age", retention.max_age_s),
        ("max-bytes", retention.max_bytes),
        ("max-messages", retention.max_messages),
    ]
    return ", ".join(f"{name}={value}" for name, value in parts if value is not None)


def surplus(state: StreamState, oldest: Sequence[Outline], now_us: int) -> Sequence[Outline]:
    """The leading records that the policy does not keep. The newest record always stays: an offset must remain."""
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


def before(state: StreamState, oldest: Sequence[Outline], position: int) -> Sequence[Outline]:
    """The leading records that end by a position, by the same rule: the newest one stays."""
    for number, record in enumerate(oldest):
        if record.end > position or record.end >= state.tail:
            return oldest[:number]
    return oldest


class Trim(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Give up data before a position. The records are erased afterwards, in small steps."""

    path: str
    topic: TopicId
    position: int
    messages: int
    check_again_us: int
    last_id: CommittedId = CommittedId(0)
    """The newest record that goes."""

    def needs(self) -> list[Key]:
        return [stream_key(self.path), retention_key(self.path), PRUNED_KEY]

    def apply(self, view: View) -> bool:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or state.topic != self.topic or state.deleted or state.soft_deleted:
            return False
        view.put(retention_key(self.path), RetentionCheck(self.topic, self.check_again_us))
        if state.forks or self.position <= state.earliest:  # forks still read what this stream would give up
            return False
        view.append(Kind.TRIM, self.topic, self.position, self.position)
        advance_pruned(view, self.last_id)
        view.put(
            stream_key(self.path),
            msgspec.structs.replace(state, earliest=self.position, messages=max(0, state.messages - self.messages)),
        )
        return True


class EndChecks(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Nobody needs to look at this stream again: it has no policy, and what was given up of it is erased."""

    path: str
    earliest: int
    """Up to where it was erased. If that is not all by now, more has been given up since."""

    def needs(self) -> list[Key]:
        return [stream_key(self.path), retention_key(self.path)]

    def apply(self, view: View) -> None:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or (state.retention is None and state.earliest <= self.earliest):
            view.put(retention_key(self.path), None)
