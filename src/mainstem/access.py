"""The identity of a caller, and what it may do, from the claims of a verified token."""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

import msgspec

from mainstem.errors import Forbidden
from mainstem.globs import matches

OWN_STREAMS: Final = "_mainstem/"
"""The prefix of the streams in which the server and `mainstem.ai` keep records of their own."""


class ReadUrl(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a signed URL allows reading: one stream or one partition, and never a glob."""

    stream: str | None = None
    partition: str | None = None


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A caller and its grants. Subscriptions only filter what is delivered; they grant nothing."""

    client_id: str | None = None
    subject: str | None = None
    admin: bool = False
    metrics: bool = False
    """Whether the caller may read metrics. An administrator may anyway."""
    partitions: frozenset[str] = frozenset()
    partition_prefixes: tuple[str, ...] = ()
    stream_reads: tuple[str, ...] = ()
    """Globs of the streams that the caller may read."""
    stream_writes: tuple[str, ...] = ()
    sign_urls: bool = False
    """Whether the caller may have URLs signed for what it may read. An administrator may anyway."""
    read_url: ReadUrl | None = None
    """What the caller may read because it has a signed URL. Such a caller has no other grants."""
    expires_at_s: float | None = None
    """When the token expires, in seconds since 1970; None if there is no token or it never expires."""
    public: bool = False
    """Whether the caller is any visitor, who may read a stream whose path it knows, and nothing else."""
    refusal: str = "this token does not allow"
    """How an error about a missing grant begins."""
    hint: str | None = None
    """What to do about it; None if a better token would help."""

    @property
    def name(self) -> str | None:
        """The owner of what this caller creates; None if no token names the caller."""
        if self.client_id is not None:
            return "client " + self.client_id
        return None if self.subject is None else "subject " + self.subject

    def may_read(self, path: str) -> bool:
        return (
            self.admin
            or any(matches(pattern, path) for pattern in self.stream_reads)
            or (self.read_url is not None and self.read_url.stream == path)
            or (self.public and not path.startswith(OWN_STREAMS))
        )

    def may_write(self, path: str) -> bool:
        return self.admin or any(matches(pattern, path) for pattern in self.stream_writes)

    def may_read_all(self, pattern: str) -> bool:
        """Return whether the caller may read every stream that a glob could match.

        True if the glob itself is granted, or if a granted `prefix/**` covers it.
        """
        return self.admin or any(
            granted in (pattern, "**") or (granted.endswith("/**") and pattern.startswith(granted[:-2]))
            for granted in self.stream_reads
        )

    def may_use(self, partition: str) -> bool:
        return (
            self.admin
            or partition in self.partitions
            or partition.startswith(self.partition_prefixes)
            or (self.read_url is not None and self.read_url.partition == partition)
        )

    def may_read_target(self, target: ReadUrl) -> bool:
        """Return whether the caller may read what a signed URL would be for."""
        if target.stream is not None:
            return self.may_read(target.stream)
        return target.partition is not None and self.may_use(target.partition)

    def has_expired(self, now_us: int) -> bool:
        return self.expires_at_s is not None and now_us >= self.expires_at_s * 1_000_000

    def require_read(self, path: str) -> None:
        if not self.may_read(path):
            raise self.forbid(f"reading {path!r}")

    def require_write(self, path: str) -> None:
        if not self.may_write(path):
            raise self.forbid(f"writing {path!r}")

    def require_grants(self, action: str) -> None:
        """Refuse what visitors may not do, even with streams that they may read."""
        if self.public:
            raise self.forbid(action)

    def require_admin(self) -> None:
        if self.admin:
            return
        if self.hint is not None:
            raise self.forbid("this request")
        raise Forbidden("this request needs a token with the admin claim")

    def forbid(self, action: str) -> Forbidden:
        """Return the error about a grant that the caller lacks. It speaks of a token only if the caller has one."""
        return Forbidden(f"{self.refusal} {action}", hint=self.hint)


def name_caller(identity: Identity, client: tuple[str, int] | None) -> str:
    """Return the name under which a caller's requests and shares are counted: its token's client, or its address."""
    return identity.name or name_address(client[0] if client else "")


@lru_cache(4096)
def name_address(host: str) -> str:
    """Return a name for an IPv4 address, or for the /64 network of an IPv6 address: one client can use all of it."""
    try:
        address = IPv6Address(host)
    except ValueError:
        return "address " + host
    if address.ipv4_mapped is not None:
        return f"address {address.ipv4_mapped}"
    return f"address {IPv6Address(int(address) >> 64 << 64)}/64"


NOBODY: Final = Identity()
"""The caller of a request to a path that needs no token."""
EVERYBODY: Final = Identity(admin=True)
"""The caller of every request while the server runs without authentication, on loopback."""
FROM_INSIDE: Final = "Call the log from the program that embeds it, with `log.client()`."
PUBLIC_READER: Final = Identity(
    public=True, refusal="this app lets its visitors read streams, and does not allow", hint=FROM_INSIDE
)
"""The caller of every request to an embedded app that is public for reading."""
PRIVATE: Final = Identity(
    refusal="this app serves only the program that embeds it, and does not allow", hint=FROM_INSIDE
)
"""The caller of every request to an embedded app that is not public."""
