"""Whose forwarded headers decide which address a client has."""

import pytest

from mainstem.errors import SettingsError
from mainstem.server.proxies import open_proxies
from mainstem.server.settings import Settings


def resolve(client, *headers, trusted="loopback"):
    scope = {"client": client, "headers": list(headers)}
    open_proxies(Settings(trusted_proxies=trusted)).resolve(scope)
    return scope


def forwarded_for(value):
    return (b"x-forwarded-for", value)


@pytest.mark.parametrize(
    ("trusted", "proxy"),
    [
        ("loopback", "127.0.0.1"),
        ("loopback", "::1"),
        ("loopback", "::ffff:127.0.0.1"),
        ("private", "10.1.2.3"),
        ("private", "192.168.7.7"),
        ("private", "fd00::1"),
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.0/24, 2001:db8::/32", "2001:db8::9"),
    ],
)
def test_a_trusted_proxy_names_the_client(trusted, proxy):
    scope = resolve((proxy, 1), forwarded_for(b"198.51.100.9"), (b"x-forwarded-proto", b"https"), trusted=trusted)
    assert scope["client"] == ("198.51.100.9", 0)
    assert (b"x-forwarded-proto", b"https") in scope["headers"]


@pytest.mark.parametrize(
    ("trusted", "stranger"),
    [("loopback", "10.1.2.3"), ("none", "127.0.0.1"), ("private", "8.8.8.8"), ("10.0.0.0/8", "11.0.0.1")],
)
def test_an_untrusted_peer_is_not_believed(trusted, stranger):
    fields = [forwarded_for(b"198.51.100.9"), (b"x-forwarded-host", b"evil.example"), (b"accept", b"*/*")]
    scope = resolve((stranger, 1), *fields, trusted=trusted)
    assert scope["client"] == (stranger, 1)
    assert scope["headers"] == [(b"accept", b"*/*")]


@pytest.mark.parametrize(
    ("hops", "client"),
    [
        (b"198.51.100.9", "198.51.100.9"),
        (b"6.6.6.6, 198.51.100.9", "198.51.100.9"),
        (b"6.6.6.6, 198.51.100.9, 127.0.0.2", "198.51.100.9"),
        (b"6.6.6.6,198.51.100.9:1234 ,127.0.0.2", "198.51.100.9"),
        (b"[2001:db8::1]:80", "2001:db8::1"),
        (b"127.0.0.3", "127.0.0.3"),
        (b"198.51.100.9, nonsense", "127.0.0.1"),
        (b"", "127.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_proxy(hops, client):
    assert resolve(("127.0.0.1", 1), forwarded_for(hops))["client"][0] == client


def test_hops_in_several_headers_are_one_list():
    scope = resolve(("127.0.0.1", 1), forwarded_for(b"6.6.6.6"), forwarded_for(b"198.51.100.9"))
    assert scope["client"][0] == "198.51.100.9"


def test_a_peer_on_a_unix_socket_is_trusted():
    assert resolve(None, forwarded_for(b"198.51.100.9"))["client"] == ("198.51.100.9", 0)


@pytest.mark.parametrize("text", ["everybody", "10.0.0.0/33", "10.0.0.1/8", "localhost"])
def test_an_invalid_network_is_refused_at_the_start(text):
    with pytest.raises(SettingsError, match="trusted_proxies"):
        open_proxies(Settings(trusted_proxies=text))
