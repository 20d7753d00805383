"""Proxies in front of the server: which ones may say who the client is and how it has addressed the server."""

import ipaddress
from functools import lru_cache
from typing import Any, Final

from mainstem.errors import SettingsError
from mainstem.http.asgi import Scope
from mainstem.server.settings import Settings

LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10")
GROUPS: Final = {"loopback": LOOPBACK, "private": (*LOOPBACK, *PRIVATE), "none": ()}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies:
    """Uses the X-Forwarded headers of trusted proxies, and drops those that anybody else sends."""

    def __init__(self, networks: tuple[Network, ...]) -> None:
        self._networks = networks
        self.trusts = lru_cache(maxsize=4096)(self._trusts)

    def resolve(self, scope: Scope) -> None:
        """Put the real client into the scope, or drop the headers if no trusted proxy has sent them."""
        if not any(name.startswith(b"x-forwarded-") for name, _ in scope["headers"]):
            return
        client = scope.get("client")
        if client is not None and not self.trusts(client[0]):
            scope["headers"] = [field for field in scope["headers"] if not field[0].startswith(b"x-forwarded-")]
            return
        hops = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
        address = self.find_client(hops.decode("latin-1"))
        if address is not None:
            scope["client"] = (address, 0)

    def client_of(self, client: Any, hops: bytes | None) -> Any:
        """Return the real client of a request that has no scope; `hops` is its X-Forwarded-For."""
        if hops is None or (client is not None and not self.trusts(client[0])):
            return client
        address = self.find_client(hops.decode("latin-1"))
        return client if address is None else (address, 0)

    def find_client(self, hops: str) -> str | None:
        """Return the last address that is not a trusted proxy: the client may have made up those before it."""
        found = None
        for hop in reversed([hop.strip() for hop in hops.split(",")]):
            address = _parse(hop)
            if address is None:
                break
            found = str(address)
            if not self.trusts(found):
                break
        return found

    def _trusts(self, host: str) -> bool:
        address = _parse(host)
        return address is not None and any(address in network for network in self._networks)


def open_proxies(settings: Settings) -> Proxies:
    networks: list[Network] = []
    for text in filter(None, (part.strip() for part in settings.trusted_proxies.split(","))):
        try:
            networks += [ipaddress.ip_network(network) for network in GROUPS.get(text, (text,))]
        except ValueError:
            known = ", ".join(GROUPS)
            raise SettingsError(f"trusted_proxies: {text!r} must be an address, a network, or one of {known}") from None
    return Proxies(tuple(networks))


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a text that may have a port; None if there is none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
