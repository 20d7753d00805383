"""Wakes as a server sends them: in the reply to a claim, and in the body of a webhook."""

import msgspec


class WakeStream(msgspec.Struct, frozen=True):
    """A stream of a wake. Its data from `acked_offset` to `tail_offset` has not been acknowledged."""

    path: str
    acked_offset: str
    tail_offset: str
    link_type: str = "glob"
    has_pending: bool = True


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
