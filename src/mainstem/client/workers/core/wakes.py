"""Wakes as a server sends them: in the reply to a claim, and in the body of a webhook."""

import msgspec

from mainstem.client.core.errors import BadArgument
from mainstem.streams.rules.offsets import FORM


class WakeStream(msgspec.Struct, frozen=True):
    """A stream of a wake. Its data from `acked_offset` to `tail_offset` has not been acknowledged."""

    path: str
    acked_offset: str
    tail_offset: str
    link_type: str = "glob"
    has_pending: bool = True


def check_kept(kept: object, stream: WakeStream) -> None:
    """Raise `BadArgument` unless an application can have kept this offset of a stream.

    The worker acknowledges everything before it, so a wrong one would lose data without a call of the function.
    """
    if not isinstance(kept, str) or FORM.fullmatch(kept) is None:
        raise BadArgument(f"resume returned {kept!r:.100} for {stream.path}; return the `offset` of a batch, or None")
    if kept > stream.tail_offset:
        raise BadArgument(f"resume returned {kept} for {stream.path}, which ends at {stream.tail_offset} already")


class Wake(msgspec.Struct, frozen=True):
    """What a webhook says: which streams have new data, and where to acknowledge it."""

    subscription_id: str
    wake_id: str
    generation: int
    streams: tuple[WakeStream, ...]
    callback_url: str
    callback_token: str

    def __repr__(self) -> str:
        """Return the wake without its token, which must not reach a log."""
        return f"Wake({self.subscription_id!r}, generation={self.generation}, streams={len(self.streams)})"


class Claim(msgspec.Struct, frozen=True):
    """The reply to a claim: the wake that this worker now holds."""

    wake_id: str
    generation: int
    token: str
    streams: tuple[WakeStream, ...]
    lease_ttl_ms: int

    @property
    def lease_s(self) -> float:
        return self.lease_ttl_ms / 1000


class Acknowledged(msgspec.Struct, frozen=True):
    next_wake: bool = False
