"""Web pages of other origins and a server with tokens: closed, unless the operator lists them."""

import json
import threading

import httpx2
import pytest

from tests.auth.endpoints import ROOT, TEXT
from tests.support.issuers import bearer
from tests.support.waits import eventually

LISTED = "https://app.example.com"
OTHER = "https://other.example"
SETTINGS = {
    "nothing": None,
    "one": f"{LISTED}, http://localhost:5173",
    "all": "*",
    "both": f"*, {LISTED}/",
}
CORS = ("access-control-allow-origin", "access-control-allow-credentials", "access-control-expose-headers")
# By setting and origin: Access-Control-Allow-Origin, and whether the cookie may be sent.
EXPECTED = {
    ("nothing", None): (None, False),
    ("nothing", "own"): (None, False),
    ("nothing", LISTED): (None, False),
    ("nothing", "null"): (None, False),
    ("one", None): (None, False),
    ("one", LISTED): (LISTED, True),
    ("one", LISTED.upper()): (LISTED, True),
    ("one", "http://localhost:5173"): ("http://localhost:5173", True),
    ("one", "http://localhost:5174"): (None, False),
    ("one", OTHER): (None, False),
    ("one", "null"): (None, False),
    ("one", "*"): (None, False),
    ("all", None): ("*", False),
    ("all", OTHER): ("*", False),
    ("both", LISTED): (LISTED, True),
    ("both", OTHER): ("*", False),
}


@pytest.fixture
def start(secret_file, start_thread, connect_to):
    file, issuer = secret_file

    def start(setting: str) -> httpx2.Client:
        server = start_thread(jwt_secret_file=file, store="memory", allow_origin=SETTINGS[setting], long_poll_ms=10_000)
        client = connect_to(server)
        client.headers.update(bearer(issuer.token(admin=True)))
        client.put(ROOT + "a", headers=TEXT, content=b"data")
        client.put(ROOT + "closed", headers={**TEXT, "stream-closed": "true"}, content=b"data")
        return client

    return start


def check(reply: httpx2.Response, origin: str | None, credentials: bool) -> None:
    assert reply.headers.get("access-control-allow-origin") == origin, reply.request.url
    assert reply.headers.get("access-control-allow-credentials") == ("true" if credentials else None)
    assert ("access-control-expose-headers" in reply.headers) == (origin is not None)


@pytest.mark.parametrize(("setting", "origin"), EXPECTED)
def test_only_listed_origins_may_read_replies(start, setting, origin):
    client = start(setting)
    sent = {} if origin is None else {"origin": str(client.base_url).rstrip("/") if origin == "own" else origin}
    allowed, credentials = EXPECTED[setting, origin]
    urls = [ROOT + "a", ROOT + "a?offset=-1", ROOT + "a?offset=-1&live=long-poll", ROOT + "closed?offset=-1&live=sse"]
    for url in [*urls, "/v1/streams", "/v1/log/head", "/v1/partition/p", "/v1/whoami", "/openapi.json", ROOT + "none"]:
        for _ in range(2):  # the second read of a stream takes the fast path
            reply = client.get(url, headers=sent)
            check(reply, allowed, credentials)
            varies = "origin" in reply.headers.get("vary", "").split(", ")
            assert varies == (setting in ("one", "both")), url
    check(client.head(ROOT + "a", headers=sent), allowed, credentials)
    if origin is not None:  # without one, replies to writes never have the headers
        for _ in range(2):
            check(client.post(ROOT + "a", headers={**TEXT, **sent}, content=b"x"), allowed, credentials)
        for _ in range(2):  # an error on the fast path
            wrong = {"content-type": "application/json", **sent}
            failed = client.post(ROOT + "a", headers=wrong, content=b"[1]")
            assert failed.status_code == 409
            check(failed, allowed, credentials)
    del client.headers["authorization"]
    refused = client.get(ROOT + "a", headers=sent)
    assert refused.status_code == 401
    check(refused, allowed, credentials)


@pytest.mark.parametrize(("setting", "origin"), [key for key in EXPECTED if key[1] not in (None, "own")])
@pytest.mark.parametrize("path", [ROOT + "a", "/v1/whoami", "/v1/cookie", "/v1/signed-urls"])
def test_preflights(start, setting, origin, path):
    client = start(setting)
    del client.headers["authorization"]
    allowed, credentials = EXPECTED[setting, origin]
    asked = {
        "origin": origin,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "authorization",
    }
    reply = client.options(path, headers=asked)
    assert reply.status_code == 204
    check(reply, allowed, credentials)
    assert ("access-control-allow-methods" in reply.headers) == (allowed is not None)
    assert ("access-control-allow-headers" in reply.headers) == (allowed is not None)
    assert "*" not in reply.headers.get("access-control-allow-headers", "")


def test_waiting_readers_of_different_origins_get_different_replies(start):
    """Long-polls from one offset share their response, but not with pages of other origins."""
    client = start("one")
    at = client.head(ROOT + "a").headers["stream-next-offset"]
    origins = [LISTED, "http://localhost:5173", OTHER, None]
    found: dict[str | None, httpx2.Response] = {}

    def poll(origin: str | None) -> None:
        headers = dict(client.headers) | ({} if origin is None else {"origin": origin})
        found[origin] = httpx2.get(f"{client.base_url}/v1/stream/a?offset={at}&live=long-poll", headers=headers)

    polls = [threading.Thread(target=poll, args=[origin]) for origin in origins]
    for thread in polls:
        thread.start()
    eventually(lambda: 'mainstem_live_readers{kind="long-poll"} 4' in client.get("/metrics").text)
    client.post(ROOT + "a", headers=TEXT, content=b"more")
    for thread in polls:
        thread.join()
    for origin, reply in found.items():
        assert reply.content == b"more"
        check(reply, origin if origin != OTHER else None, origin in (LISTED, "http://localhost:5173"))


def test_files_of_the_console_are_not_affected(start):
    client = start("one")
    reply = client.get("/console/", headers={"origin": LISTED})
    assert reply.status_code == 200
    assert not [name for name in CORS if name in reply.headers]
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("origin", [None, LISTED, OTHER])
def test_public_files_are_open_to_every_page(start, origin):
    """No file is there yet, but its error shows the headers."""
    client = start("one")
    reply = client.get("/client/nothing.js", headers={} if origin is None else {"origin": origin})
    check(reply, "*", False)


@pytest.mark.parametrize(
    ("setting", "origin", "status"),
    [
        ("nothing", None, 101),
        ("nothing", "http://{host}", 101),
        ("nothing", "https://{host}", 101),
        ("nothing", "HTTP://{host}", 101),
        ("nothing", LISTED, 403),
        ("nothing", "http://localhost:1", 403),
        ("nothing", "http://127.0.0.1:1", 403),
        ("nothing", "null", 403),
        ("nothing", "", 403),
        ("one", LISTED, 101),
        ("one", LISTED + ":443", 101),
        ("one", LISTED + ".evil.example", 403),
        ("one", OTHER, 403),
        ("all", OTHER, 101),
        ("all", "null", 101),
    ],
)
def test_websockets_are_for_own_and_listed_pages(start, shake_hands, setting, origin, status):
    client = start(setting)
    host = f"{client.base_url.host}:{client.base_url.port}"

    class Server:
        address = (client.base_url.host, client.base_url.port)

    headers = {} if origin is None else {"origin": origin.replace("{host}", host)}
    with shake_hands(Server, "/v1/sync", headers) as reply:
        assert reply.status == status
        if status == 403:
            assert json.loads(reply.read())["code"] == "origin_not_allowed"


def test_a_websocket_through_a_proxy_belongs_to_the_host_of_the_proxy(start, shake_hands):
    client = start("nothing")

    class Server:
        address = (client.base_url.host, client.base_url.port)

    forwarded = {"x-forwarded-host": "log.example.com:443", "x-forwarded-proto": "https"}
    with shake_hands(Server, "/v1/sync", {**forwarded, "origin": "https://log.example.com"}) as reply:
        assert reply.status == 101
    with shake_hands(Server, "/v1/sync", {**forwarded, "origin": OTHER}) as reply:
        assert reply.status == 403


def test_every_origin_may_be_listed_only_with_tokens(start_thread):
    with pytest.raises(Exception, match="allow_origin: \\* needs tokens"):
        start_thread(store="memory", allow_origin="*")


@pytest.mark.parametrize("text", ["app.example.com", "https://app.example.com/path", "https://*.example.com/x", "null"])
def test_text_that_is_not_an_origin_is_refused_at_the_start(secret_file, start_thread, text):
    with pytest.raises(Exception, match="allow_origin"):
        start_thread(store="memory", jwt_secret_file=secret_file[0], allow_origin=text)
