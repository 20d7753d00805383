"""The command that records a round of a pipeline job: in the table of last rounds, and in a stream of all rounds."""

from typing import Final

import msgspec

from mainstem import limits
from mainstem.errors import JobsStreamUnusable
from mainstem.log.commands import Key, View
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.content_types import media_type
from mainstem.streams.rules.json_mode import JSON, Messages
from mainstem.streams.rules.paths import JOBS_PATH
from mainstem.streams.states import JobRound, Retention, StreamState, stream_key

JOBS_RETENTION: Final = Retention(max_age_s=limits.JOB_KEPT_S, max_messages=limits.JOB_ROUNDS_KEPT)


class ReportRound(msgspec.Struct, frozen=True, gc=False):
    """Record a round as the last one of its job, and append it to the stream, which is created if there is none."""

    key: Key
    round: JobRound
    message: Messages | None
    """The round in its stored form; None leaves the stream as it is."""
    forgotten: tuple[Key, ...] = ()
    """Jobs that leave the table."""
    touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.round.report)

    def needs(self) -> list[Key]:
        return [self.key, *self.forgotten, stream_key(JOBS_PATH)]

    def apply(self, view: View) -> None:
        if self.message is not None:
            self._append(view, self.message)
        for key in self.forgotten:
            view.put(key, None)
        view.put(self.key, self.round)

    def _append(self, view: View, message: Messages) -> None:
        state: StreamState | None = view.get(stream_key(JOBS_PATH))
        if state is None or lifecycle.is_gone(state, view.now_us, self.touched_us):
            Create(JOBS_PATH, JSON, retention=JOBS_RETENTION).apply(view)
        else:
            _check_usable(state, view.now_us, self.touched_us)
        Append(JOBS_PATH, JSON, message, touched_us=self.touched_us).apply(view)


def _check_usable(state: StreamState, now_us: int, touched_us: int) -> None:
    """Raise `JobsStreamUnusable` if somebody has made the stream in a way that it cannot hold reports."""
    if lifecycle.is_soft_deleted(state, now_us, touched_us):
        raise JobsStreamUnusable(
            f"the stream {JOBS_PATH} was deleted, but its path cannot be used again while forks read its data",
            hint=f"Delete the forks of {JOBS_PATH}. The next report creates the stream again.",
        )
    if media_type(state.content_type) != JSON:
        raise JobsStreamUnusable(
            f"the stream {JOBS_PATH} has the content type {state.content_type}, but reports are {JSON}"
        )
    if state.closed:
        raise JobsStreamUnusable(f"the stream {JOBS_PATH} is closed")
