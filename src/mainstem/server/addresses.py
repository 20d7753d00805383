"""Which host names are addresses, and which ones are this machine's loopback."""

import ipaddress


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback if is_address(host) else host == "localhost"
