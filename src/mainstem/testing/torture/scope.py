"""What one history is about, if several follow each other on the same server."""

import msgspec

from mainstem.testing.history.calls import Event


class Scope(msgspec.Struct, frozen=True):
    """All streams and partitions whose names begin with `prefix`, in the log after the committed id `after`."""

    prefix: str = ""
    after: int = 0

    @property
    def kept(self) -> tuple[str, ...]:
        """Streams that nobody closes or deletes."""
        return (f"{self.prefix}kept/json", f"{self.prefix}kept/text")

    @property
    def mortal(self) -> tuple[str, ...]:
        """Streams that are closed, deleted and created again all the time."""
        return (f"{self.prefix}mortal/json", f"{self.prefix}mortal/text")

    @property
    def streams(self) -> tuple[str, ...]:
        return self.kept + self.mortal

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{name}" for name in "abc")

    def holds_stream(self, path: str) -> bool:
        return path.startswith(self.prefix)

    def holds_event(self, event: Event) -> bool:
        return all(name.startswith(self.prefix) for name in event.partitions)


EVERYTHING = Scope()
