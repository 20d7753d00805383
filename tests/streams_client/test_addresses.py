"""URLs that do not lead to a Durable Streams server: the client names the URL, and says what to change."""

import socket
import ssl
import threading

import pytest

from mainstem.client import BadArgument, BadRequest, ConnectionFailed, InvalidResponse, NotFound, Retries
from tests.streams_client.canned import canned, reply
from tests.support.certificates import make_certificate

PAGE = {"content-type": "text/html; charset=utf-8"}
CALLS = [("head", ()), ("append", ("data",)), ("read_bytes", ()), ("create", ()), ("delete", ())]


@pytest.mark.parametrize(
    ("url", "better"),
    [
        ("http://127.0.0.1:4437/v1/stream", "http://127.0.0.1:4437 "),
        ("http://127.0.0.1:4437/v1/stream/", "http://127.0.0.1:4437 "),
        ("http://127.0.0.1:4437/v1/stream/chat/1", "http://127.0.0.1:4437 "),
        ("https://example.com/app/v1/streams", "https://example.com/app "),
        ("http://127.0.0.1:4437/v1/sync", "http://127.0.0.1:4437 "),
    ],
)
def test_the_url_of_an_endpoint_is_refused_with_that_of_its_server(twins, url, better):
    with pytest.raises(BadArgument) as caught:
        twins(url)
    assert url in caught.value.detail
    assert f"give {better}" in caught.value.detail


def test_a_prefix_of_its_own_is_recognised_and_other_servers_may_have_any_path(twins):
    with pytest.raises(BadArgument, match="give http://h/app as the URL"):
        twins("http://h/app/rivers/chat", prefix="/rivers")
    with canned(reply(200, {"stream-next-offset": "1"})) as peer:
        twins(f"{peer.url}/v1/stream/tenant", prefix="").head("chat/1")
        assert peer.asked[-1].target == "/v1/stream/tenant/chat/1"


@pytest.mark.parametrize("url", ["127.0.0.1:4437", "localhost", "ws://127.0.0.1:4437", "http://", "http://h/?a=b"])
def test_an_invalid_address_is_refused_with_an_example(twins, url):
    with pytest.raises(BadArgument, match=r"http://127\.0\.0\.1:4437"):
        twins(url)


@pytest.mark.parametrize(("call", "arguments"), CALLS)
def test_a_path_that_the_server_does_not_have_is_named(twins, server, call, arguments):
    url = f"{server.url}/nowhere"
    with pytest.raises(NotFound) as caught:
        getattr(twins(url), call)("chat/1", *arguments)
    assert url in str(caught.value)
    assert "/nowhere" in caught.value.hint
    assert "mounted" in caught.value.hint


def test_a_missing_stream_of_the_right_server_is_just_that(twins, server):
    with pytest.raises(NotFound) as caught:
        twins(server.url).head("chat/none")
    assert caught.value.detail == "head chat/none: there is no such stream"
    assert "mounted" not in caught.value.hint


@pytest.mark.parametrize(("call", "arguments"), CALLS)
@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (405, BadRequest), (200, InvalidResponse)])
def test_the_page_of_another_web_server_is_recognised(twins, call, arguments, status, kind):
    with canned(reply(status, PAGE)) as peer:
        with pytest.raises(kind) as caught:
            getattr(twins(peer.url), call)("chat/1", *arguments)
        assert len(peer.asked) == 1
    assert caught.value.detail == (
        f"{call} chat/1: {peer.url} answered {status} with a web page, so it is not a Durable Streams server"
    )
    assert "host and port" in caught.value.hint


def test_a_web_framework_without_such_a_route_is_recognised(twins):
    not_found = reply(404, {"content-type": "application/json"}, b'{"detail":"Not Found"}')
    with canned(not_found) as peer, pytest.raises(NotFound, match="does not know this request") as caught:
        twins(peer.url).read_bytes("chat/1")
    assert peer.url in caught.value.detail


def test_a_page_that_is_the_data_of_a_stream_is_read(twins, server, path):
    streams = twins(server.url)
    streams.create(path, "text/html", body="<h1>welcome</h1>")
    assert streams.read_text(path) == "<h1>welcome</h1>"


def test_a_web_page_can_still_be_asked_for(twins):
    with canned(reply(200, PAGE)) as peer:
        assert twins(peer.url).request("GET", "/console").ok


@pytest.mark.parametrize(
    "said", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"-ERR unknown command\r\n", b"\x00\x01\x02\r\n\r\n"]
)
def test_what_does_not_speak_http_is_recognised(twins, said):
    def answer(_, connection: socket.socket) -> None:
        connection.sendall(said)

    with canned(answer) as peer, pytest.raises(ConnectionFailed) as caught:
        twins(peer.url, retries=Retries(attempts_max=2, delay_s=0.001)).head("chat/1")
    assert peer.url in caught.value.detail
    assert "answered over HTTP yet" in caught.value.hint


def test_a_server_that_has_answered_is_not_taken_for_something_else(twins):
    with canned(reply(200, {"stream-next-offset": "1"}), b"") as peer:
        streams = twins(peer.url, retries=Retries(attempts_max=2, delay_s=0.001))
        streams.head("chat/1")
        with pytest.raises(ConnectionFailed, match="closed before the reply was complete") as caught:
            streams.head("chat/1")
    assert "HTTP yet" not in caught.value.hint


def test_https_to_a_server_without_tls_is_reported_at_once(twins, server):
    retries: list[object] = []
    with pytest.raises(ConnectionFailed, match="does not speak TLS") as caught:
        twins(server.url.replace("http://", "https://"), on_retry=retries.append).head("chat/1")
    assert not retries
    assert "http://" in caught.value.hint


def test_a_certificate_that_is_not_trusted_is_reported_at_once(twins, tmp_path):
    make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "cert.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection, context.wrap_socket(connection, server_side=True):
                    pass
            except ssl.SSLError:
                continue
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    retries: list[object] = []
    try:
        with pytest.raises(ConnectionFailed, match="certificate is not trusted") as caught:
            twins(f"https://127.0.0.1:{listener.getsockname()[1]}", on_retry=retries.append).head("chat/1")
    finally:
        listener.close()
    assert not retries
    assert "verify=" in caught.value.hint
