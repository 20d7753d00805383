"""What web pages may do with a server that requires no token, and what stored content may do to a browser."""

import httpx2
import pytest

from tests.support.plain_http import exchange, head, post

HANDSHAKE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
FOREIGN = [
    "http://evil.example",
    "https://evil.example:4437",
    "null",
    "http://127.0.0.1.evil.example",
    "file://",
    "",
    "http://[",
    "http://[:::::]",
]
LOCAL = [
    "http://localhost",
    "http://localhost:3000",
    "https://127.0.0.1:8443",
    "http://[::1]:5173",
    "http://a.localhost",
]
COMMANDS = [
    ("PUT", "/v1/stream/{new}"),
    ("POST", "{stream}"),
    ("DELETE", "{stream}"),
    ("POST", "/v1/prune"),
    ("POST", "/v1/stream/__ds/keys/rotate"),
    ("PUT", "/v1/snapshot/p"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/log"),
    ("GET", "/v1/log/head"),
    ("GET", "/v1/subscriptions"),
    ("GET", "/v1/subscriptions/s"),
    ("POST", "/v1/subscriptions/s/pause"),
]


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize(("method", "target"), COMMANDS)
def test_a_page_of_another_site_can_change_nothing(client, text_stream, method, target, origin):
    url = target.format(stream=text_stream, new="made/by/a/page")
    reply = client.request(method, url, headers={"origin": origin, "content-type": "text/plain"}, content=b"")
    assert (reply.status_code, reply.json()["code"]) == (403, "origin_not_allowed")
    assert client.head(text_stream).headers["stream-next-offset"].endswith("_0000000000000000")
    assert client.head("/v1/stream/made/by/a/page").status_code == 404


@pytest.mark.parametrize("origin", LOCAL)
def test_a_local_page_may_write(client, text_stream, origin):
    headers = {"origin": origin, "content-type": "text/plain"}
    assert client.post(text_stream, headers=headers, content=b"x").status_code == 204
    assert client.get("/v1/log/head", headers=headers).status_code == 200


def test_a_page_of_the_same_host_may_write(client, server, text_stream):
    headers = {"origin": "http://nas:4437", "host": "nas:4437", "content-type": "text/plain"}
    assert client.post(text_stream, headers=headers, content=b"x").status_code == 204
    headers["origin"] = "http://nas:1"
    assert client.post(text_stream, headers=headers, content=b"x").status_code == 403


def test_any_page_may_read_a_stream(client, text_stream):
    reply = client.get(text_stream, headers={"origin": "http://evil.example"})
    assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "*")


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_another_site_cannot_open_a_websocket(server, origin):
    reply = exchange(server.address, head(b"GET", b"/v1/sync", *HANDSHAKE, b"Origin: " + origin.encode()))
    assert (reply.status, reply.problem["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("lines", [(), (b"Origin: http://localhost:3000",), (b"Origin: http://test",)])
def test_a_local_client_can_open_a_websocket(server, lines):
    assert exchange(server.address, head(b"GET", b"/v1/sync", *HANDSHAKE, *lines)).status == 101


def test_an_operator_can_allow_origins(start_thread, connect_to):
    client = connect_to(start_thread(allow_origin="https://app.example.com, http://other.example:81/"))
    for origin, status in {
        "https://app.example.com": 201,
        "HTTPS://APP.EXAMPLE.COM": 200,
        "http://other.example:81": 200,
        "http://app.example.com": 403,
        "http://other.example": 403,
    }.items():
        assert client.put("/v1/stream/a", headers={"origin": origin}).status_code == status, origin


@pytest.mark.parametrize("text", ["app.example.com", "ftp://a", "https://a/b", "https://", "*"])
def test_an_invalid_origin_is_refused_at_the_start(start_thread, text):
    with pytest.raises(Exception, match="allow_origin"):
        start_thread(allow_origin=text)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4437", "127.0.0.1.evil.example", "localhost.evil.example", "[:::::]"]
)
@pytest.mark.parametrize("target", ["/healthz", "/v1/streams", "/v1/stream/x"])
def test_a_host_name_that_a_stranger_could_own_is_refused(client, host, target):
    """DNS rebinding: the page's own name points at this server, so the browser treats both as one site."""
    for method in ("GET", "PUT", "POST"):
        reply = client.request(method, target, headers={"host": host, "origin": f"http://{host}"})
        assert (reply.status_code, reply.json()["code"]) == (421, "host_not_allowed")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:4437", "127.0.0.1:1", "[::1]:4437", "mainstem", "192.168.1.7"]
)
def test_addresses_and_local_names_are_accepted_as_hosts(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_the_host_of_an_allowed_origin_is_accepted(start_thread, connect_to):
    client = connect_to(start_thread(allow_origin="https://streams.example.com"))
    assert client.get("/healthz", headers={"host": "streams.example.com"}).status_code == 200
    assert client.get("/healthz", headers={"host": "other.example.com"}).status_code == 421


def test_the_host_of_an_absolute_target_overrides_the_host_header(server):
    raw = b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert exchange(server.address, raw).status == 421


# Content


@pytest.mark.parametrize(
    "content_type", ["text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "application/xhtml+xml", "text/xml"]
)
def test_active_content_is_downloaded_and_never_runs(client, path, content_type):
    client.put(path, headers={"content-type": content_type}, content=b"<script>alert(1)</script>")
    for target in (path, f"{path}?offset=now", f"{path}?tail=1"):
        reply = client.get(target)
        assert reply.headers["content-security-policy"] == "sandbox"
        assert reply.headers["content-disposition"] == "attachment"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_other_content_is_shown_and_never_runs(client, text_stream):
    reply = client.get(text_stream)
    assert reply.headers["content-security-policy"] == "sandbox"
    assert "content-disposition" not in reply.headers


def test_an_operator_can_allow_active_content(start_thread, connect_to):
    client: httpx2.Client = connect_to(start_thread(allow_active_content=True))
    client.put("/v1/stream/page", headers={"content-type": "text/html"}, content=b"<p>hello</p>")
    reply = client.get("/v1/stream/page")
    assert "content-disposition" not in reply.headers
    assert reply.headers["content-security-policy"] == "sandbox"


def test_an_append_on_the_fast_path_is_checked_like_any_other(client, server, text_stream):
    raw = post(text_stream, b"x", b"Origin: http://evil.example")
    assert exchange(server.address, raw).status == 403
    assert exchange(server.address, post(text_stream, b"x").replace(b"Host: test", b"Host: evil.example")).status == 421
    assert client.get(text_stream).content == b""
