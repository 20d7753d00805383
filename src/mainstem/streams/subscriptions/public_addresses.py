"""Public IP addresses: the only ones that webhooks may reach.

The list is our own, because the standard library's idea of a global address differs between versions of Python.
"""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

# IANA's special-purpose registry, reserved and multicast addresses.
NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        [
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by carriers
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, and the metadata services of clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments, such as DS-Lite
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ],
    )
)
# Everything outside this network is special: loopback, link-local, site-local, unique local, multicast, NAT64, discard.
GLOBAL_V6: Final = IPv6Network("2000::/3")
NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        [
            "2001::/23",  # protocol assignments, including Teredo, which embeds an IPv4 address
            "2001:db8::/32",
            "2002::/16",  # 6to4, which embeds an IPv4 address
            "3fff::/20",
        ],
    )
)


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public Internet. `::ffff:10.0.0.1` is treated as 10.0.0.1. Raise
    ValueError if the text is not an address."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is None:
            return ip in GLOBAL_V6 and not any(ip in network for network in NOT_PUBLIC_V6)
        ip = ip.ipv4_mapped
    return not any(ip in network for network in NOT_PUBLIC_V4)
