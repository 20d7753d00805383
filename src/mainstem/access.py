"""Who asks, and what they may: the claims of a verified token, as questions."""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

import msgspec

from mainstem.errors import Forbidden
from mainstem.globs import matches


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A caller. Subscriptions are delivery filters; only what stands here is a grant."""

    client_id: str | None = None
    subject: str | None = None
    admin: bool = False
    partitions: frozenset[str] = frozenset()
    partition_prefixes: tuple[str, ...] = ()
    stream_reads: tuple[str, ...] = ()
    """Globs of streams."""
    stream_writes: tuple[str, ...] = ()
    expires_at_s: float | None = None
    """When the token ends; None if there is none."""

    @property
    def name(self) -> str | None:
        """Whom things belong to that this caller makes; None if no token says who it is."""
        if self.client_id is not None:
            return "client " + self.client_id
        return None if self.subject is None else "subject " + self.subject

    def may_read(self, path: str) -> bool:
        return self.admin or any(matches(pattern, path) for pattern in self.stream_reads)

    def may_write(self, path: str) -> bool:
        return self.admin or any(matches(pattern, path) for pattern in self.stream_writes)

    def may_read_all(self, pattern: str) -> bool:
        """Whether every stream that a glob could match may be read: it is granted, or lies below a granted one."""
        return self.admin or any(
            granted in (pattern, "**") or (granted.endswith("/**") and pattern.startswith(granted[:-2]))
            for granted in self.stream_reads
        )

    def may_use(self, partition: str) -> bool:
        return self.admin or partition in self.partitions or partition.startswith(self.partition_prefixes)

    def has_expired(self, now_us: int) -> bool:
        return self.expires_at_s is not None and now_us >= self.expires_at_s * 1_000_000

    def require_read(self, path: str) -> None:
        if not self.may_read(path):
            raise Forbidden(f"this token does not allow to read {path!r}")

    def require_write(self, path: str) -> None:
        if not self.may_write(path):
            raise Forbidden(f"this token does not allow to write {path!r}")

    def require_admin(self) -> None:
        if not self.admin:
            raise Forbidden("this needs a token with the admin claim")


def name_caller(identity: Identity, client: tuple[str, int] | None) -> str:
    """Whose requests and shares are counted together: the client that a token names, or else an address."""
    return identity.name or name_address(client[0] if client else "")


@lru_cache(4096)
def name_address(host: str) -> str:
    """An IPv4 address, or the network of an IPv6 address: one client has 2^64 of those."""
    try:
        address = IPv6Address(host)
    except ValueError:
        return "address " + host
    if address.ipv4_mapped is not None:
        return f"address {address.ipv4_mapped}"
    return f"address {IPv6Address(int(address) >> 64 << 64)}/64"


EVERYBODY: Final = Identity(admin=True)
"""The caller when the server runs without authentication, on loopback."""
