"""The URLs that are allowed for webhooks, before and after the name is resolved (protocol section 12.8)."""

import pytest

from mainstem.errors import WebhookUrlRejected
from mainstem.streams.subscriptions.webhook_client import WebhookClient, WebhookFailed, check_url

PUBLIC = [
    "https://worker.example/hooks",
    "https://worker.example",
    "https://worker.example:8443/a/b?c=d",
    "https://sub.worker.co.uk/",
    "https://WORKER.example/",
    "https://xn--bcher-kva.example/",
    "https://8.8.8.8/",
    "https://192.0.1.1/",
    "https://[::ffff:8.8.8.8]/",
    "https://[2001:4860:4860::8888]/",
    "https://[2a00:1450::1]/",
    "https://[2606:4700:4700::1111]/",
    "https://[2606:4700:4700::1111]:8443/",
]

REFUSED = {
    "not https": ["http://worker.example/", "ftp://worker.example/", "file:///etc/passwd", "//worker.example/"],
    "no URL": ["", "worker.example", "https://", "https:///path", "https://[::1", "javascript:alert(1)"],
    "ports": ["https://worker.example:0/", "https://worker.example:65536/", "https://worker.example:x/"],
    "user names": ["https://user@worker.example/", "https://user:pass@worker.example/", "https://@worker.example/"],
    "user names that look like hosts": ["https://8.8.8.8@127.0.0.1/", "https://worker.example:443@10.0.0.1/"],
    "loopback": ["https://127.0.0.1/", "https://127.255.255.254/", "https://localhost/", "https://LOCALHOST/"],
    "localhost as a domain": ["https://app.localhost/", "https://localhost./", "https://app.localhost./"],
    "private": ["https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/"],
    "link-local": ["https://169.254.1.1/"],
    "metadata": ["https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/"],
    "shared, test and other ranges": [
        "https://0.0.0.0/",
        "https://0.1.2.3/",
        "https://100.64.0.1/",
        "https://192.0.0.8/",
        "https://192.0.0.170/",
        "https://192.0.2.1/",
        "https://192.88.99.1/",
        "https://198.18.0.1/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
    ],
    "IPv6": [
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fe80::1%25eth0]/",
        "https://[fc00::1]/",
        "https://[fd12:3456::1]/",
        "https://[ff02::1]/",
        "https://[fec0::1]/",
        "https://[100::1]/",
        "https://[2001:db8::1]/",
        "https://[3fff::1]/",
        "https://[3fff:fff:ffff::1]/",
        "https://[5f00::1]/",
        "https://[4000::1]/",
    ],
    "IPv4 in IPv6": [
        "https://[::ffff:10.0.0.1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[::10.0.0.1]/",
        "https://[::127.0.0.1]/",
        "https://[2002:a00:1::]/",  # 6to4 of 10.0.0.1
        "https://[2002:7f00:1::]/",  # 6to4 of 127.0.0.1
        "https://[2002:a9fe:a9fe::]/",  # 6to4 of 169.254.169.254
        "https://[2001:0:a00:1::f5ff:fffe]/",  # Teredo of 10.0.0.1
        "https://[2001:0:808:808::8000:f5ff:fffe]/",
    ],
    "IPv4 behind NAT64": [
        "https://[64:ff9b::10.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[64:ff9b:1::a00:1]/",
    ],
    "numbers that resolvers take for addresses": [
        "https://2130706433/",
        "https://0x7f000001/",
        "https://017700000001/",
        "https://127.1/",
        "https://127.0.1/",
        "https://0177.0.0.1/",
        "https://0x7f.0.0.1/",
        "https://10.1/",
        "https://127.0.0.1./",
    ],
    "names of this network": [
        "https://intranet/",
        "https://printer.local/",
        "https://PRINTER.LOCAL/",
        "https://metadata.google.internal/",
        "https://metadata.google.internal./",
        "https://printer.local./",
    ],
    "characters that do not belong": [
        "https://worker.example/\r\nX-Injected: 1",
        "https://worker.example/\0",
        "https://wörker.example/",
        "https://worker.example/" + "a" * 2048,
        "https://worker.example/a b",
        "https://worker example.com/",
    ],
}
BAD = [pytest.param(url, id=f"{group}: {url[:60]!r}") for group, urls in REFUSED.items() for url in urls]


@pytest.mark.parametrize("url", PUBLIC)
@pytest.mark.parametrize("allow_local", [False, True])
def test_https_to_a_public_host_is_allowed(url, allow_local):
    assert check_url(url, allow_local=allow_local).geturl()


@pytest.mark.parametrize("url", BAD)
def test_anything_else_is_refused(url):
    with pytest.raises(WebhookUrlRejected) as refused:
        check_url(url, allow_local=False)
    assert refused.value.status == 400
    assert refused.value.facts["error"]["code"] == "WEBHOOK_URL_REJECTED"


LOCAL = [
    "http://localhost:3000/hooks",
    "http://LOCALHOST/",
    "http://127.0.0.1:3000/",
    "http://127.0.0.9/",
    "http://[::1]:3000/",
    "https://localhost/",
    "https://127.0.0.1/",
]


@pytest.mark.parametrize("url", LOCAL)
def test_this_machine_is_allowed_only_if_the_operator_says_so(url):
    check_url(url, allow_local=True)
    with pytest.raises(WebhookUrlRejected):
        check_url(url, allow_local=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "https://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/",
        "http://0.0.0.0/",
        "http://worker.example/",
        "http://app.localhost/",
        "http://user@localhost/",
        "ftp://localhost/",
        "http://localhost:0/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_the_exception_for_this_machine_covers_nothing_else(url):
    with pytest.raises(WebhookUrlRejected):
        check_url(url, allow_local=True)


# Resolved names


def resolver(*addresses):
    async def resolve(host, port):
        return list(addresses)

    return resolve


PRIVATE_ADDRESSES = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "::1",
    "fe80::1",
    "fe80::1%2",
    "fd00::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "2002:a00:1::",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "192.0.0.9",
    "192.88.99.99",
    "fec0::1",
    "3fff::1",
    "2001::1",
]


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
@pytest.mark.parametrize("allow_local", [False, True])
async def test_a_name_that_resolves_to_a_private_address_is_not_called(address, allow_local):
    caller = WebhookClient(allow_local=allow_local, resolve=resolver(address))
    with pytest.raises(WebhookFailed, match="not public"):
        await caller.call("https://worker.example/", b"{}", "signature")


@pytest.mark.parametrize("private", ["127.0.0.1", "10.0.0.1", "::1"])
async def test_one_private_address_among_public_ones_is_enough_to_refuse(private):
    """Otherwise chance, or the attacker, would decide which of them is called."""
    for addresses in (("8.8.8.8", private), (private, "8.8.8.8"), ("8.8.8.8", "1.1.1.1", private)):
        caller = WebhookClient(allow_local=False, resolve=resolver(*addresses))
        with pytest.raises(WebhookFailed, match="not public"):
            await caller.call("https://worker.example/", b"{}", "signature")


async def test_a_name_that_does_not_resolve_is_not_called():
    with pytest.raises(WebhookFailed):
        await WebhookClient(allow_local=False, resolve=resolver()).call("https://worker.example/", b"{}", "s")


async def test_a_localhost_that_resolves_elsewhere_is_not_called():
    for address in ("10.0.0.1", "169.254.169.254"):
        caller = WebhookClient(allow_local=True, resolve=resolver(address))
        with pytest.raises(WebhookFailed, match="not public"):
            await caller.call("http://localhost:3000/", b"{}", "signature")


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1"])
async def test_a_number_in_the_system_resolvers_own_forms_reaches_nothing(host):
    """Use the real resolver, which takes such numbers for addresses."""
    for allow_local in (False, True):
        with pytest.raises(WebhookFailed):
            await WebhookClient(allow_local=allow_local).call(f"https://{host}/", b"{}", "signature")
