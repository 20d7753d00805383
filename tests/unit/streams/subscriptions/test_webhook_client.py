"""Webhook requests to receivers that misbehave: whatever they do raises WebhookFailed, within bounds."""

import asyncio
import socket

import pytest

from mainstem import limits
from mainstem.streams.subscriptions.webhook_client import (
    FAILURES,
    Outcome,
    WebhookClient,
    WebhookFailed,
    WebhookResponse,
)
from tests.support.raw_receivers import answering, hang, receiving, trickle


@pytest.fixture
def caller():
    return WebhookClient(allow_local=True)


async def call(caller, behave, body=b'{"wake": 1}'):
    with receiving(behave) as receiver:
        return await caller.call(receiver.url, body, "t=1,kid=k,ed25519=s")


async def test_a_call_is_a_post_with_the_body_and_the_signature(caller):
    with receiving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as receiver:
        assert await caller.call(receiver.url, b'{"wake": 1}', "t=1,kid=k,ed25519=s") == WebhookResponse(200, b"{}")
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /hook?a=b HTTP/1.1"
    assert b"Host: " + receiver.url.split("/")[2].encode() in lines
    assert b"Content-Type: application/json" in lines
    assert b"Webhook-Signature: t=1,kid=k,ed25519=s" in lines
    assert body == b'{"wake": 1}'


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", WebhookResponse(204, b"")),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", WebhookResponse(200, b"{}")),  # without a length, it ends with the connection
        (b"HTTP/1.0 200 OK\r\n\r\n{}", WebhookResponse(200, b"{}")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", WebhookResponse(200, b"{}")),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 1\r\n\r\nx", WebhookResponse(500, b"x")),
        (
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            WebhookResponse(200, b"{}"),
        ),
    ],
    ids=["empty", "until-the-end", "http-1.0", "chunked", "error", "early-hints"],
)
async def test_every_form_of_an_http_answer_is_understood(caller, raw, answer):
    assert await call(caller, answering(raw)) == answer


async def test_a_response_may_arrive_byte_by_byte(caller):
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert await call(caller, answering(*(bytes([byte]) for byte in raw))) == WebhookResponse(200, b"{}")


async def test_a_redirect_is_an_answer_and_is_not_followed(caller):
    with receiving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as elsewhere:
        raw = f"HTTP/1.1 307 Go\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode()
        assert (await call(caller, answering(raw))).status == 307
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 100,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>200 OK</html>",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x01x",
        b"HTTP/2 200\r\n\r\n",
    ],
    ids=["nothing", "zeros", "ssh", "html", "status", "length", "header", "chunk", "upgrade", "http-2"],
)
async def test_garbage_is_not_an_answer(caller, raw):
    with pytest.raises(WebhookFailed):
        await call(caller, answering(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"done"',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
    ids=["status-line", "head", "before-the-body", "within-the-body", "before-the-last-chunk"],
)
async def test_an_answer_that_is_cut_off_is_no_answer(caller, raw):
    """The rest of the response is unknown, so a receiver that dies in the middle has not accepted the wake."""
    with pytest.raises(WebhookFailed):
        await call(caller, answering(raw))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Large: ",
    ],
    ids=["with-length", "without-length", "in-the-head"],
)
async def test_a_response_of_ten_megabytes_is_refused_early(caller, head):
    sent = 0

    def flood(connection):
        nonlocal sent
        connection.sendall(head)
        for _ in range(10_000):
            connection.sendall(b"x" * 1000)
            sent += 1000

    with pytest.raises(WebhookFailed, match="larger than"):
        await call(caller, flood)
    assert sent < 10_000_000


@pytest.mark.parametrize("behave", [hang, trickle])
async def test_a_receiver_that_never_finishes_times_out(caller, monkeypatch, behave):
    monkeypatch.setattr(limits, "WEBHOOK_S_MAX", 0.1)
    with pytest.raises(WebhookFailed, match="no response within"):
        await call(caller, behave)


async def test_a_receiver_that_reads_no_data_times_out(caller, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_S_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:  # the receiver never accepts
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        with pytest.raises(WebhookFailed, match="no response within"):
            await caller.call(url, b"x" * 50_000_000, "s")


async def test_a_connection_reset_is_a_failure(caller):
    def reset(connection):
        linger = b"\1\0\0\0\0\0\0\0"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    with pytest.raises(WebhookFailed) as failed:
        await call(caller, reset)
    assert (failed.value.reason, failed.value.outcome) == ("the receiver closed the connection", Outcome.UNREACHABLE)


async def test_a_port_without_a_listener_fails(caller):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebhookFailed) as failed:
        await caller.call(f"http://127.0.0.1:{port}/", b"{}", "s")
    assert (failed.value.reason, failed.value.outcome) == ("the receiver refused the connection", Outcome.UNREACHABLE)


async def test_tls_to_a_receiver_without_tls_is_a_failure(caller):
    with socket.create_server(("127.0.0.1", 0)) as plain:
        port = plain.getsockname()[1]

        async def refuse():
            connection, _ = await asyncio.to_thread(plain.accept)
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answer = asyncio.create_task(refuse())
        with pytest.raises(WebhookFailed) as failed:
            await caller.call(f"https://127.0.0.1:{port}/", b"{}", "s")
        await answer
    assert (failed.value.reason, failed.value.outcome) == ("the TLS handshake with the receiver failed", Outcome.TLS)


HOSTS_OF_ODD_FORM = ["a..invalid", ".worker.invalid", "x" * 64 + ".invalid", "-.invalid"]


def test_a_name_that_cannot_be_a_name_has_failed_on_every_event_loop():
    """For such names, the resolver of the standard loop raises other errors than that of uvloop."""

    async def check():
        for host in HOSTS_OF_ODD_FORM:
            with pytest.raises(WebhookFailed):
                await WebhookClient(allow_local=False).call(f"https://{host}/", b"{}", "s")

    asyncio.run(check())


@pytest.mark.parametrize("error", [type_ for type_, _, _ in FAILURES])
async def test_a_reason_is_text_of_the_server_and_not_of_a_library(error):
    async def resolve(host, port):
        raise error("[Errno 5] secret of 10.0.0.7")

    with pytest.raises(WebhookFailed) as failed:
        await WebhookClient(allow_local=False, resolve=resolve).call("https://worker.example/", b"{}", "s")
    assert (error, failed.value.reason, failed.value.outcome) in FAILURES
