"""How far a worker has processed the streams of one wake, and what to acknowledge next."""

from collections.abc import Mapping


class Progress:
    """The offsets of one wake that are processed and not acknowledged yet.

    One request at a time carries them, so a burst of small batches becomes few acknowledgements.
    """

    def __init__(self) -> None:
        self._unsent: dict[str, str] = {}
        self.moved = False
        """Whether any offset has been processed in this wake."""
        self.finished = False
        """Whether nothing more will be processed in this wake."""

    def note(self, path: str, offset: str) -> None:
        """Record that a stream is processed up to an offset."""
        self._unsent[path] = offset
        self.moved = True

    def finish(self) -> None:
        self.finished = True

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to tell the server at once, and not with the next heartbeat."""
        return self.finished or bool(self._unsent)

    def pending(self) -> dict[str, str]:
        """Return the offsets to acknowledge now."""
        return dict(self._unsent)

    def confirm(self, sent: Mapping[str, str]) -> None:
        """Forget the offsets that the server has accepted or refused, unless a stream is further by now."""
        for path, offset in sent.items():
            if self._unsent.get(path) == offset:
                del self._unsent[path]
