"""The errors of states, beside those of the streams client."""

from mainstem.client.core.errors import ClientError


class InvalidMessage(ClientError):
    """A message of the stream that breaks the State Protocol, or whose value does not fit its collection."""

    code = "invalid_message"
    hint = "Correct the program that wrote it. To skip such messages, pass on_invalid=."

    def __init__(self, detail: str, *, reason: str, offset: str, index: int) -> None:
        super().__init__(detail)
        self.reason = reason
        self.offset = offset
        """Where the batch that holds the message ends."""
        self.index = index
        """The position of the message in that batch, from 0."""


class StateTooLarge(ClientError):
    """The rows need more memory than `bytes_max` allows."""

    code = "state_too_large"
    hint = "Pass a larger bytes_max, or fewer collections."


class StateFailed(ClientError):
    """The state follows its stream no longer; `__cause__` says why. Its rows are out of date."""

    code = "state_failed"
    hint = "Remove the cause, and open the state again."


class StateClosed(ClientError):
    """The state is not open, or its stream has ended, so that what the call waits for cannot happen."""

    code = "state_closed"
    hint = "Use the state inside `async with`; a closed stream changes no more."


class StateTimedOut(ClientError, TimeoutError):
    """What the call waits for did not happen in time. It may still happen later."""

    code = "state_timed_out"
    retryable = True
    hint = "Call again, or pass a larger timeout_s."


class IncompleteSnapshot(ClientError):
    """The state does not have everything that the stream has, so a snapshot would lose or undo changes.

    It has skipped an invalid message, there are rows of a type for which it has no collection, or it has read neither
    the beginning of the stream nor a whole snapshot or a reset.
    """

    code = "incomplete_snapshot"
