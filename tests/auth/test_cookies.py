"""The cookie: a page of the same site uses a token that its scripts cannot read, and other sites cannot abuse."""

import http.client
import json
import time

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem import limits
from mainstem.server.app import create_app
from mainstem.testing.clock import SECOND_US, START_US, FakeClock
from tests.auth.endpoints import ROOT, TEXT, make_closed, make_stream
from tests.support.issuers import bearer
from tests.support.sync_peers import Peers

COOKIE = "/v1/cookie"
LISTED = "https://app.example.com"


@pytest.fixture
def origin(guarded) -> str:
    return guarded.server.url


def own(origin: str) -> dict[str, str]:
    return {"origin": origin}


def with_cookie(token: str, name: str = "mainstem") -> dict[str, str]:
    return {"cookie": f"theme=dark; {name}={token}; lang=en"}


@pytest.fixture
def token(guarded, path) -> str:
    return guarded.secret.token(client_id="c", streams=[path, path + "/**"], exp=time.time() + 60)


def code_of(reply: httpx2.Response) -> str:
    return reply.json()["code"]


# Setting and deleting it


def test_a_browser_signs_in_and_out(admin, client, guarded, origin, token, path):
    """httpx keeps cookies as a browser does."""
    make_stream(admin, path)
    put = client.put(COOKIE, headers={**bearer(token), **own(origin)})
    assert (put.status_code, put.content, put.headers["cache-control"]) == (204, b"", "no-store")
    name, attributes = put.headers["set-cookie"].split("; ", 1)
    assert name == f"mainstem={token}"
    assert attributes.split("; ")[:3] == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert 50 <= int(attributes.rpartition("Max-Age=")[2]) <= 60
    assert client.get(ROOT + path).content == b"data"
    assert client.get("/v1/whoami").json()["client_id"] == "c"
    assert client.post(ROOT + path, headers={**TEXT, **own(origin)}, content=b"!").status_code == 204
    gone = client.delete(COOKIE, headers=own(origin))
    assert gone.status_code == 204
    assert gone.headers["set-cookie"] == "mainstem=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
    assert client.get(ROOT + path).status_code == 401


def test_the_cookie_lasts_as_long_as_its_token(secret_file, start_thread, connect_to):
    file, issuer = secret_file
    clock = FakeClock()
    server = start_thread(jwt_secret_file=file, store="memory", clock_us=clock)
    client = connect_to(server)
    for exp, age in ((START_US / SECOND_US + 90.5, "; Max-Age=90"), (START_US / SECOND_US + 0.5, "; Max-Age=0")):
        reply = client.put(COOKIE, headers={**bearer(issuer.token(exp=exp)), **own(server.url)})
        assert reply.headers["set-cookie"].endswith(age)
    endless = client.put(COOKIE, headers={**bearer(issuer.token()), **own(server.url)})
    assert "Max-Age" not in endless.headers["set-cookie"]
    expired = client.put(COOKIE, headers={**bearer(issuer.token(exp=START_US / SECOND_US - 1)), **own(server.url)})
    assert expired.status_code == 401


def test_a_signed_in_browser_reads_until_the_token_expires(secret_file, start_thread, connect_to, path):
    file, issuer = secret_file
    clock = FakeClock()
    client = connect_to(start_thread(jwt_secret_file=file, store="memory", clock_us=clock))
    cookie = with_cookie(issuer.token(streams=[path], exp=START_US / SECOND_US + 10))
    assert client.get("/v1/whoami", headers=cookie).status_code == 200
    clock.advance(10)
    assert client.get("/v1/whoami", headers=cookie).status_code == 401


def test_over_https_the_cookie_is_secure_and_bound_to_its_host(client, token, path):
    """A trusted proxy ends TLS."""
    proxied = {"x-forwarded-proto": "https", "x-forwarded-host": "log.example.com"}
    reply = client.put(COOKIE, headers={**bearer(token), **proxied, **own("https://log.example.com")})
    assert reply.status_code == 204
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(f"__Host-mainstem={token}; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=")
    client.cookies.clear()
    assert client.get("/v1/whoami", headers={**proxied, **with_cookie(token, "__Host-mainstem")}).status_code == 200
    # Another host of the site, or a page without TLS, could have set one with the plain name.
    assert client.get("/v1/whoami", headers={**proxied, **with_cookie(token)}).status_code == 401
    assert client.get("/v1/whoami", headers=with_cookie(token, "__Host-mainstem")).status_code == 401


def test_the_headers_of_an_untrusted_proxy_do_not_count(secret_file, start_thread, connect_to):
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, store="memory", trusted_proxies="none")
    headers = {"x-forwarded-proto": "https", **own(server.url), **bearer(issuer.token())}
    assert "Secure" not in connect_to(server).put(COOKIE, headers=headers).headers["set-cookie"]


async def test_a_mounted_app_has_a_cookie_for_its_own_path(secret_file):
    file, issuer = secret_file
    mainstem = create_app(store="memory", jwt_secret_file=file)
    host = Starlette(routes=[Mount("/log", mainstem)])
    for scheme, name in (("http", "mainstem"), ("https", "__Secure-mainstem")):
        async with (
            mainstem.lifespan(),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url=f"{scheme}://host/log") as client,
        ):
            headers = {**bearer(issuer.token()), "origin": f"{scheme}://host"}
            reply = await client.put(COOKIE, headers=headers)
            assert reply.headers["set-cookie"].startswith(f"{name}=")
            assert "; Path=/log; " in reply.headers["set-cookie"]
            assert (await client.get("/v1/whoami")).status_code == 200


def test_the_token_of_the_cookie_comes_in_the_authorization_header(client, origin, token):
    for headers in ({}, with_cookie(token)):
        reply = client.put(COOKIE, headers={**own(origin), **headers})
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers
    assert client.put(COOKIE, headers={**own(origin), **bearer("x")}).status_code == 401
    assert client.put(f"{COOKIE}?token={token}", headers=own(origin)).status_code == 400


def test_a_token_that_no_browser_would_keep_is_refused(guarded, client, origin):
    for size in (2000, limits.COOKIE_BYTES_MAX):
        token = guarded.secret.token(streams=["x" * 900] * (size // 900))
        reply = client.put(COOKIE, headers={**own(origin), **bearer(token)})
        if size == 2000:
            assert reply.status_code == 204
        else:
            assert (reply.status_code, code_of(reply)) == (400, "cookie_too_large")


@pytest.mark.parametrize("extra", ["; Domain=example.com", ";", "=", " x", ",x", '"', "\x80"])
def test_a_token_cannot_add_attributes_to_the_cookie(client, origin, token, extra):
    """Some decoders of base64 skip characters that are not in its alphabet."""
    for crooked in (token + extra, token.replace(".", extra + ".", 1)):
        authorization = f"Bearer {crooked}".encode("latin-1")
        reply = client.put(COOKIE, headers=[(b"origin", origin.encode()), (b"authorization", authorization)])
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_the_cookie_is_only_set_and_deleted(admin, method):
    assert admin.request(method, COOKIE).status_code == 405


def test_a_server_without_tokens_has_no_cookie(start_thread, connect_to):
    client = connect_to(start_thread(store="memory"))
    for method in ("PUT", "DELETE"):
        reply = client.request(method, COOKIE)
        assert (reply.status_code, code_of(reply)) == (409, "tokens_not_required")


# Using it


@pytest.mark.parametrize("query", ["", "?offset=-1&live=long-poll", "?offset=-1&live=sse"])
def test_replies_are_private_and_vary_by_cookie(admin, client, token, path, query):
    make_closed(admin, path)
    reply = client.get(ROOT + path + query, headers=with_cookie(token))
    assert reply.status_code == 200
    assert "private" in reply.headers["cache-control"]
    assert "public" not in reply.headers["cache-control"]
    assert {"authorization", "cookie"} <= set(reply.headers["vary"].split(", "))
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"


def test_the_cookie_grants_what_its_token_grants(client, origin, token, path):
    headers = {**TEXT, **with_cookie(token), **own(origin)}
    assert client.put(ROOT + path, headers=headers, content=b"data").status_code == 201
    assert client.get(ROOT + "elsewhere", headers=headers).status_code == 403
    assert client.get("/v1/log", headers=headers).status_code == 403


def test_a_token_in_the_header_counts_instead_of_the_cookie(admin, client, guarded, token, path):
    make_stream(admin, path)
    other = guarded.secret.token(client_id="other")
    headers = {**with_cookie(token), **bearer(other)}
    assert client.get("/v1/whoami", headers=headers).json()["client_id"] == "other"
    assert client.get(ROOT + path, headers=headers).status_code == 403
    # A program that sends a token is no browser that was tricked.
    writer = guarded.secret.token(streams=[path])
    for _ in range(2):  # the second one takes the fast path
        reply = client.post(ROOT + path, headers={**TEXT, **with_cookie("x"), **bearer(writer)}, content=b"!")
        assert reply.status_code == 204


@pytest.mark.parametrize(
    ("cookies", "status"),
    [
        ([], 401),
        (["mainstem"], 401),
        (["mainstem="], 401),
        (["=;;; ;=x;"], 401),
        (["\x80\xff"], 401),
        (["Mainstem={token}"], 401),
        (["xmainstem={token}"], 401),
        (['mainstem="{token}"'], 401),
        (["mainstem={token}x"], 401),
        (["mainstem=" + "x" * 60_000], 401),
        (["mainstem={token}; mainstem={token}"], 401),
        (["mainstem={token}", "mainstem=x"], 401),
        (["mainstem={token}"], 200),
        (["a=b;mainstem={token};c"], 200),
        (["junk", "mainstem={token}"], 200),
    ],
)
def test_strange_cookies(guarded, token, cookies, status):
    connection = http.client.HTTPConnection(guarded.server.address[0], guarded.server.address[1], timeout=30)
    connection.putrequest("GET", "/v1/whoami")
    for cookie in cookies:
        connection.putheader("Cookie", cookie.replace("{token}", token).encode("latin-1"))
    connection.endheaders()
    with connection.getresponse() as reply:
        body = json.loads(reply.read())
    connection.close()
    assert reply.status == status, body
    assert body.get("code") == (None if status == 200 else "unauthorized")
    if sum(cookie.count("mainstem={token}") for cookie in cookies) + cookies.count("mainstem=x") > 1:
        assert "cookies" in body["detail"]


async def test_a_websocket_does_not_use_the_cookie(guarded, shake_hands, token):
    with shake_hands(guarded.server, "/v1/sync", with_cookie(token)) as reply:
        assert reply.status == 101
    async with Peers(guarded.server.address) as peers:
        peer = await peers.dial()
        await peer.send("connect", {"client_id": "c"})
        assert (await peer.next_error())["code"] in ("auth_failed", "bad_request")


# Requests that another site makes a browser send


@pytest.fixture
def listing(secret_file, start_thread, connect_to):
    """A client of a server that lists an origin, and every origin."""
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, store="memory", allow_origin=f"{LISTED}, *")
    client = connect_to(server)
    client.headers.update(with_cookie(issuer.token(admin=True)))
    return client, server.url, issuer


SENT = {
    "own origin": ({"origin": "{own}"}, True),
    "own origin in capitals": ({"origin": "HTTP://{host}"}, True),
    "listed origin": ({"origin": LISTED, "sec-fetch-site": "same-site"}, True),
    "listed origin with its port": ({"origin": LISTED + ":443"}, True),
    "same-origin without an Origin": ({"sec-fetch-site": "same-origin"}, True),
    "nothing": ({}, False),
    "an empty origin": ({"origin": "", "sec-fetch-site": "same-origin"}, False),
    "null": ({"origin": "null", "sec-fetch-site": "same-origin"}, False),
    "another site": ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, False),
    "another scheme": ({"origin": "https://{host}"}, False),
    "another port": ({"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"}, False),
    "a prefix": ({"origin": LISTED + ".evil.example"}, False),
    "a subdomain": ({"origin": "https://x.app.example.com"}, False),
    "the same site": ({"sec-fetch-site": "same-site"}, False),
    "another site without an Origin": ({"sec-fetch-site": "cross-site"}, False),
    "typed by a person": ({"sec-fetch-site": "none"}, False),
    "a forged host": ({"origin": "http://evil.example", "x-forwarded-host": "other.example"}, False),
}


def sent(name: str, url: str) -> dict[str, str]:
    host = url.removeprefix("http://")
    return {key: value.replace("{own}", url).replace("{host}", host) for key, value in SENT[name][0].items()}


@pytest.mark.parametrize("name", SENT)
def test_a_command_with_the_cookie_needs_proof_of_its_origin(listing, name):
    client, url, _ = listing
    allowed = SENT[name][1]
    headers = {**TEXT, **sent(name, url)}
    replies = [
        client.put(ROOT + "a", headers=headers),
        client.post(ROOT + "a", headers=headers, content=b"x"),
        client.post(ROOT + "a?b=c", headers=headers, content=b"x"),
        client.post("/v1/signed-urls", headers=sent(name, url), json={"stream": "a"}),
        client.post("/v1/prune", headers=sent(name, url), json={"floors": {"p": 0}}),
        client.delete(ROOT + "a", headers=headers),
    ]
    for reply in replies:
        if allowed:
            assert reply.status_code < 300, reply.text
        else:
            assert (reply.status_code, code_of(reply)) == (403, "csrf"), reply.text


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_no_other_site_signs_its_visitors_in_or_out(listing, name, method):
    client, url, issuer = listing
    del client.headers["cookie"]
    reply = client.request(method, COOKIE, headers={**sent(name, url), **bearer(issuer.token())})
    assert reply.status_code == (204 if SENT[name][1] else 403), reply.text
    assert ("set-cookie" in reply.headers) == SENT[name][1]


@pytest.mark.parametrize(
    ("site", "status"),
    [(None, 200), ("same-origin", 200), ("same-site", 200), ("none", 200), ("cross-site", 403), ("x", 403)],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_with_the_cookie_does_not_come_from_another_site(listing, method, site, status):
    client, url, issuer = listing
    client.put(ROOT + "a", headers={**TEXT, "origin": url}, content=b"data")
    headers = {} if site is None else {"sec-fetch-site": site}
    assert client.request(method, ROOT + "a", headers=headers).status_code == status
    del client.headers["cookie"]
    with_token = {**headers, **bearer(issuer.token(admin=True))}
    assert client.request(method, ROOT + "a", headers=with_token).status_code == 200


def test_two_origins_are_refused(listing):
    client, url, _ = listing
    reply = client.put(ROOT + "a", headers=[*client.headers.items(), ("origin", url), ("origin", LISTED)])
    assert (reply.status_code, code_of(reply)) == (400, "repeated_header")
