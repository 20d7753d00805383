"""Commands for trimming: discarding the oldest data of a stream."""

import msgspec

from mainstem.log.commands import Freeing, Key, Sizeless, View
from mainstem.log.pruned import PRUNED_KEY, advance_pruned
from mainstem.log.records import CommittedId, Kind, TopicId
from mainstem.streams.rules.paths import JOBS_PATH
from mainstem.streams.states import RetentionCheck, StreamState, retention_key, stream_key

replace = msgspec.structs.replace


class Trim(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Discard the data before a position. The reaper erases the records afterwards, in small steps."""

    path: str
    topic: TopicId
    position: int
    messages: int
    check_again_us: int
    last_id: CommittedId = CommittedId(0)
    """The newest record that is discarded."""

    def needs(self) -> list[Key]:
        return [stream_key(self.path), retention_key(self.path), PRUNED_KEY]

    def apply(self, view: View) -> bool:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or state.topic != self.topic or state.deleted or state.soft_deleted:
            return False
        view.put(retention_key(self.path), RetentionCheck(self.topic, self.check_again_us))
        if state.forks or self.position <= state.earliest:  # forks still read the data
            return False
        view.append(Kind.TRIM, self.topic, self.position, self.position)
        if self.path != JOBS_PATH:  # nobody needs reports that are a month old, so a late reader has missed nothing
            advance_pruned(view, self.last_id)
            state = replace(state, pruned_id=max(state.pruned_id, self.last_id))
        messages = max(0, state.messages - self.messages)
        view.put(stream_key(self.path), replace(state, earliest=self.position, messages=messages))
        return True


class EndRetentionChecks(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """End the retention checks of a stream that has no policy and whose trimmed data has been erased."""

    path: str
    earliest: int
    """The position up to which data was erased. If the stream has been trimmed further since, the checks go on."""

    def needs(self) -> list[Key]:
        return [stream_key(self.path), retention_key(self.path)]

    def apply(self, view: View) -> None:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or (state.retention is None and state.earliest <= self.earliest):
            view.put(retention_key(self.path), None)
