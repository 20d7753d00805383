"""Signed URLs: they read one stream or partition until they expire, and are good for nothing else."""

import http.client
import json
import os
import re
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem import limits, sign_url
from mainstem.errors import MainstemError
from mainstem.server.app import create_app
from mainstem.testing.clock import SECOND_US, START_US, FakeClock
from mainstem.testing.server import COMMAND as SERVE
from tests.auth.conftest import sign_with_public_key, write_jwks
from tests.auth.endpoints import GUARDED, ROOT, TEXT, by_name, make_closed, make_source, make_stream
from tests.support.collectors import Collector
from tests.support.command_line import COMMAND
from tests.support.event_streams import open_events
from tests.support.issuers import Issuer, bearer, sign, unsigned, write_secret
from tests.support.sync_peers import Peers
from tests.support.waits import eventually
from tests.telemetry.conftest import export_to


def soon() -> float:
    return time.time() + 60


@pytest.fixture
def signed(guarded, path):
    """The signature for the test's own stream."""
    return guarded.secret.token(read_url={"stream": path}, exp=soon())


@pytest.fixture
def secret(secret_file):
    return Path(secret_file[0]).read_bytes()


def code_of(reply: httpx2.Response) -> str:
    return reply.json()["code"]


# What they are for


@pytest.mark.parametrize("query", ["", "offset=-1&", "offset=-1&live=long-poll&", "tail=1&", "cursor=7&"])
def test_a_signed_url_reads_its_stream(admin, client, signed, path, query):
    make_stream(admin, path)
    reply = client.get(f"{ROOT}{path}?{query}signature={signed}")
    assert (reply.status_code, reply.content) == (200, b"data")
    again = client.get(f"{ROOT}{path}?{query}signature={signed}", headers={"cookie": "mainstem=x; other=y"})
    assert again.content == b"data"


def test_a_signed_url_follows_its_stream(admin, client, signed, path):
    make_stream(admin, path)
    with open_events(client, f"{ROOT}{path}?signature={signed}&offset=-1&live=sse") as events:
        assert next(events).data == "data"
        assert next(events).json["upToDate"]
        admin.post(ROOT + path, headers=TEXT, content=b"more")
        assert next(events).data == "more"


def test_head_of_a_signed_url(admin, client, signed, path):
    make_stream(admin, path)
    reply = client.head(f"{ROOT}{path}?signature={signed}")
    assert reply.status_code == 200
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_a_signed_url_reads_its_partition(client, guarded):
    signature = guarded.secret.token(read_url={"partition": "room/e\u0301"}, exp=soon())
    for url in ("/v1/partition/room/%C3%A9", "/v1/partition/room%2Fe%CC%81"):  # both spell the same name
        assert client.get(f"{url}?signature={signature}").status_code == 200
        assert client.head(f"{url}?signature={signature}").status_code == 200
    for url in ("/v1/partition/room", "/v1/partition/room/e", ROOT + "room/%C3%A9", "/v1/snapshot/room/%C3%A9"):
        assert client.get(f"{url}?signature={signature}").status_code == 403


def test_public_keys_verify_signatures_too(admin, client, guarded, path):
    make_stream(admin, path)
    signature = guarded.rsa.token(read_url={"stream": path}, exp=soon())
    assert client.get(f"{ROOT}{path}?signature={signature}").content == b"data"


@pytest.mark.parametrize("query", ["", "&offset=-1&live=long-poll", "&offset=-1&live=sse"])
def test_replies_are_private_and_do_not_leak_their_url(admin, client, signed, path, query):
    make_closed(admin, path)
    reply = client.get(f"{ROOT}{path}?signature={signed}{query}")
    assert reply.status_code == 200
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert "private" in reply.headers["cache-control"]
    assert "public" not in reply.headers["cache-control"]
    assert "authorization" in reply.headers["vary"]


def test_a_waiting_long_poll_does_not_share_its_reply_with_other_callers(admin, client, guarded, signed, path):
    make_stream(admin, path)
    at = admin.head(ROOT + path).headers["stream-next-offset"]
    found: dict[str, httpx2.Response] = {}
    queries = {"signed": (f"&signature={signed}", {}), "token": ("", dict(admin.headers))}
    polls = [
        threading.Thread(
            target=lambda name=name, query=query, headers=headers: found.update(
                {
                    name: httpx2.get(
                        f"{guarded.server.url}{ROOT}{path}?offset={at}&live=long-poll{query}", headers=headers
                    )
                }
            )
        )
        for name, (query, headers) in queries.items()
    ]
    for poll in polls:
        poll.start()
    readers = guarded.server.app.metrics.live_readers.of("long-poll")
    eventually(lambda: readers.value >= 2)
    admin.post(ROOT + path, headers=TEXT, content=b"more")
    for poll in polls:
        poll.join()
    assert [found[name].content for name in queries] == [b"more", b"more"]
    assert found["signed"].headers["referrer-policy"] == "no-referrer"
    assert "referrer-policy" not in found["token"].headers


# What they are not for


@pytest.mark.parametrize("endpoint", GUARDED, ids=by_name)
def test_a_signature_opens_no_other_endpoint(admin, client, guarded, path, endpoint):
    """Even if the token has every other claim."""
    endpoint.prepare(admin, path)
    rights = {"admin": True, "streams": ["**"], "allowed_partition_prefixes": [""], "sign_urls": True}
    for target in ({"stream": path}, {"partition": path.replace("/", "-")}):
        signature = guarded.secret.token(read_url=target, exp=soon(), **rights)
        url = endpoint.url + ("&" if "?" in endpoint.url else "?") + "signature=" + signature
        reply = endpoint._replace(url=url).call(client, path)
        root = ROOT if "stream" in target else "/v1/partition/"
        if endpoint.method in ("GET", "HEAD") and endpoint.url.startswith((root + "{path}", root + "{id}")):
            assert reply.status_code == 200
        else:
            assert reply.status_code == 403
            assert endpoint.method == "HEAD" or code_of(reply) == "forbidden"


@pytest.mark.parametrize(
    "url",
    [
        "{path}/",
        "{path}/below",
        "{path}x",
        "{path}%2Fbelow",
        "other",
        "__ds/subscriptions/{path}",
        "__ds/keys/rotate",
    ],
)
def test_a_signature_is_for_no_other_stream(admin, client, signed, path, url):
    for name in (path, path + "/", path + "/below", path + "x"):
        make_stream(admin, name)
    reply = client.get(f"{ROOT}{url.format(path=path)}?signature={signed}")
    assert (reply.status_code, code_of(reply)) == (403, "forbidden")


@pytest.mark.parametrize("url", ["{path}/../{path}", "{path}/%2e%2e/secret", "./{path}", "%2e/{path}", "{path}%00"])
def test_paths_that_are_no_streams_stay_invalid(guarded, signed, path, url):
    """httpx would remove the dots, so the request is written by hand."""
    connection = http.client.HTTPConnection(guarded.server.address[0], guarded.server.address[1], timeout=30)
    connection.request("GET", f"{ROOT}{url.format(path=path)}?signature={signed}")
    with connection.getresponse() as reply:
        assert (reply.status, json.loads(reply.read())["code"]) == (400, "invalid_path")
    connection.close()


def test_another_spelling_of_the_path_is_the_same_stream(admin, client, signed, path):
    make_stream(admin, path)
    spelt = "".join(f"%{ord(letter):02x}" for letter in path)
    assert client.get(f"{ROOT}{spelt}?signature={signed}").content == b"data"


@pytest.mark.parametrize("name", ["{path}/*", "{path}/**", "**", "*"])
def test_a_stream_whose_path_looks_like_a_glob_is_only_itself(admin, client, guarded, path, name):
    name = name.format(path=path)
    make_stream(admin, path + "/a")
    signature = guarded.secret.token(read_url={"stream": name}, exp=soon())
    assert client.get(f"{ROOT}{path}/a?signature={signature}").status_code == 403
    assert client.get(f"{ROOT}{name}?signature={signature}").status_code in (200, 404)


def test_a_fork_is_a_stream_of_its_own(admin, client, guarded, path):
    make_source(admin, path)
    assert admin.put(ROOT + path, headers={"stream-forked-from": f"{ROOT}{path}/source"}).status_code == 201
    fork, source = (guarded.secret.token(read_url={"stream": name}, exp=soon()) for name in (path, path + "/source"))
    assert client.get(f"{ROOT}{path}?signature={fork}").content == b"data"
    assert client.get(f"{ROOT}{path}?signature={source}").status_code == 403
    assert client.get(f"{ROOT}{path}/source?signature={fork}").status_code == 403


def test_a_signature_is_no_token(admin, client, guarded, signed, path):
    make_stream(admin, path)
    assert client.get(f"{ROOT}{path}?signature={signed}").status_code == 200  # it is cached now
    reply = client.get(ROOT + path, headers=bearer(signed))
    assert (reply.status_code, code_of(reply)) == (401, "unauthorized")
    assert "signature of a URL" in reply.json()["detail"]
    assert client.get(ROOT + path, headers={"cookie": f"mainstem={signed}"}).status_code == 401
    appended = client.post(ROOT + path, headers={**TEXT, **bearer(signed)}, content=b"x")
    assert appended.status_code == 401


async def test_a_signature_opens_no_sync_session(guarded):
    claims = {"client_id": "c", "allowed_partitions": ["p"], "exp": soon()}
    signature = guarded.secret.token(read_url={"partition": "p"}, **claims)
    async with Peers(guarded.server.address) as peers:
        peer = await peers.dial()
        await peer.send("connect", {"token": signature, "client_id": "c"})
        error = await peer.next_error()
        assert error["code"] == "auth_failed"
        assert await (await peers.dial()).connect("c", guarded.secret.token(**claims))


def test_a_signature_in_the_url_of_a_websocket_is_refused(guarded, shake_hands, signed):
    with shake_hands(guarded.server, f"/v1/sync?signature={signed}", {}) as reply:
        assert (reply.status, json.loads(reply.read())["code"]) == (400, "token_in_url")


def test_a_token_is_no_signature(admin, client, guarded, path):
    make_stream(admin, path)
    for claims in ({"admin": True}, {"streams": [path]}):
        token = guarded.secret.token(exp=soon(), **claims)
        assert client.get(ROOT + path, headers=bearer(token)).status_code == 200  # it is cached now
        reply = client.get(f"{ROOT}{path}?signature={token}")
        assert (reply.status_code, code_of(reply)) == (401, "signature_invalid")
        assert "read_url" in reply.json()["detail"]


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_a_signature_and_a_token_exclude_each_other(admin, guarded, signed, path, method):
    make_stream(admin, path)
    for _ in range(2):  # the second one could take the fast path
        reply = admin.request(method, f"{ROOT}{path}?signature={signed}", headers=TEXT)
        assert reply.status_code == 400
        assert method == "HEAD" or code_of(reply) == "two_credentials"


def test_two_signatures_are_refused(client, signed, path):
    reply = client.get(f"{ROOT}{path}?signature={signed}&signature={signed}")
    assert (reply.status_code, code_of(reply)) == (400, "invalid_query")


# Invalid ones


def invalid_signatures(guarded, path) -> dict[str, tuple[str, str]]:
    """Return signatures by what is wrong with them, each with a part of the error's detail."""
    claims = {"read_url": {"stream": path}, "exp": soon()}
    token = guarded.secret.token
    head, payload, digest = token(**claims).split(".")
    other = token(**claims | {"read_url": {"stream": "x"}}).split(".")[1]
    trusted = "not signed with a key that this server trusts"
    return {
        "empty": ("", "needs a token"),
        "not a token": ("letmein", "not a signed JWT"),
        "another secret": (Issuer("HS256").token(**claims), trusted),
        "another payload": (f"{head}.{other}.{digest}", trusted),
        "no digest": (f"{head}.{payload}.", trusted),
        "alg none": (unsigned(**claims), trusted),
        "HS512": (sign(guarded.secret.key, "HS512", claims), trusted),
        "public key as secret": (sign_with_public_key(guarded.rsa.key.as_pem(private=False)), trusted),
        "too long": (token(**claims, padding="x" * limits.TOKEN_BYTES_MAX), "longer than"),
        "expired": (token(**claims | {"exp": time.time() - 1}), "has expired"),
        "early": (token(**claims, nbf=time.time() + 60), "not valid yet"),
        "no expiry": (token(read_url={"stream": path}), "must expire"),
        "null expiry": (token(**claims | {"exp": None}), "exp"),
        "late expiry": (token(**claims | {"exp": time.time() + limits.SIGNED_URL_S_MAX + 120}), "expires too late"),
        "endless": (token(**claims | {"exp": 1e300}), "expires too late"),
        "two targets": (token(**claims | {"read_url": {"stream": path, "partition": "p"}}), "either"),
        "no target": (token(**claims | {"read_url": {}}), "either"),
        "null": (token(**claims | {"read_url": None}), "read_url"),
        "null target": (token(**claims | {"read_url": {"stream": path, "partition": None}}), "read_url"),
        "a list": (token(**claims | {"read_url": {"stream": [path]}}), "read_url"),
        "another field": (token(**claims | {"read_url": {"stream": path, "glob": True}}), "glob"),
    }


INVALID = [
    *("empty", "not a token", "another secret", "another payload", "no digest", "alg none", "HS512"),
    *("public key as secret", "too long", "expired", "early", "no expiry", "null expiry", "late expiry", "endless"),
    *("two targets", "no target", "null", "null target", "a list", "another field"),
]


@pytest.mark.parametrize("wrong", INVALID)
def test_an_invalid_signature_is_refused(admin, client, guarded, path, wrong):
    make_stream(admin, path)
    found = invalid_signatures(guarded, path)
    assert list(found) == INVALID
    signature, reason = found[wrong]
    reply = client.get(f"{ROOT}{path}?signature={signature}")
    assert (reply.status_code, code_of(reply)) == (401, "signature_invalid"), reply.text
    assert reason in reply.json()["detail"]
    assert reason in reply.headers["www-authenticate"] or len(reason) > 40
    assert not signature or signature not in reply.text + str(reply.headers)
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_a_query_that_is_too_long_is_refused(client, path):
    reply = client.get(f"{ROOT}{path}?signature={'x' * limits.QUERY_BYTES_MAX}")
    assert (reply.status_code, code_of(reply)) == (400, "invalid_query")


def test_a_signature_ends_while_it_is_cached(secret_file, start_thread, connect_to, path):
    file, issuer = secret_file
    clock = FakeClock()
    client = connect_to(start_thread(jwt_secret_file=file, store="memory", clock_us=clock))
    client.headers.update(bearer(issuer.token(admin=True)))
    make_stream(client, path)
    del client.headers["authorization"]
    url = f"{ROOT}{path}?signature={issuer.token(read_url={'stream': path}, exp=START_US / SECOND_US + 10)}"
    assert client.get(url).status_code == 200
    clock.advance(10)
    assert client.get(url).status_code == 401


@pytest.mark.timeout(30)  # far less than the usual length of a response
@pytest.mark.parametrize(("query", "status"), [("offset=-1&live=sse", 200), ("offset=now&live=long-poll", 204)])
def test_a_live_read_ends_when_its_url_expires(secret_file, start_thread, connect_to, path, query, status):
    file, issuer = secret_file
    client = connect_to(start_thread(jwt_secret_file=file, store="memory", clock_us=FakeClock()))
    client.headers.update(bearer(issuer.token(admin=True)))
    make_stream(client, path)
    del client.headers["authorization"]
    signature = issuer.token(read_url={"stream": path}, exp=START_US / SECOND_US + 0.5)
    assert client.get(f"{ROOT}{path}?{query}&signature={signature}").status_code == status


def test_issuer_and_audience_are_checked(secret_file, start_thread, connect_to, path):
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, store="memory", jwt_issuer="me", jwt_audience="log")
    client = connect_to(server)
    right = {"iss": "me", "aud": "log"}
    rights = bearer(issuer.token(admin=True, **right))
    assert client.put(ROOT + path, headers={**TEXT, **rights}, content=b"data").status_code == 201
    plain = issuer.token(read_url={"stream": path}, exp=soon())
    assert client.get(f"{ROOT}{path}?signature={plain}").status_code == 401
    made = client.post("/v1/signed-urls", json={"stream": path}, headers=rights)
    assert client.get(made.json()["url"]).content == b"data"
    secret = Path(file).read_bytes()
    url = sign_url(f"{server.url}{ROOT}{path}", secret, issuer="me", audience="log")
    assert client.get(url).content == b"data"


def test_without_tokens_a_signature_has_no_effect(start_thread, connect_to, path):
    client = connect_to(start_thread(store="memory"))
    make_stream(client, path)
    reply = client.get(f"{ROOT}{path}?signature=anything")
    assert (reply.status_code, reply.content) == (200, b"data")
    assert "referrer-policy" not in reply.headers


# Making them


@pytest.mark.parametrize("name", ["chat/1", "ch\u00e2t/\u2603 *?#%", "v1/stream/x", "a/v1/partition/b"])
@pytest.mark.parametrize("kind", ["stream", "partition"])
def test_the_server_signs_what_the_caller_may_read(admin, client, guarded, path, name, kind):
    name = f"{path}/{name}"
    admin.put(ROOT + name.replace("%", "%25").replace("?", "%3F").replace("#", "%23"), headers=TEXT, content=b"data")
    claims = {"streams": {"read": [path + "/**"]}, "allowed_partition_prefixes": [path]}
    maker = bearer(guarded.secret.token(sign_urls=True, **claims))
    before_s = time.time()
    made = client.post("/v1/signed-urls", json={kind: name}, headers=maker)
    assert made.status_code == 201, made.text
    assert made.headers["cache-control"] == "no-store"
    assert set(made.json()) == {"url", "expires_at"}
    assert client.get(made.json()["url"]).status_code == 200
    left_s = datetime.fromisoformat(made.json()["expires_at"]).timestamp() - before_s
    assert limits.SIGNED_URL_S - 1 <= left_s <= limits.SIGNED_URL_S + 60


def test_the_server_signs_a_url_with_its_query(admin, client, guarded, path):
    make_closed(admin, path)
    for url in (f"{guarded.server.url}{ROOT}{path}?offset=-1&live=sse", f"{ROOT}{path}?offset=-1&live=sse"):
        made = admin.post("/v1/signed-urls", json={"url": url, "expires_in_s": 3600})
        assert made.json()["url"].startswith(url + "&signature=")
        assert "data" in client.get(made.json()["url"]).text


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"admin": True}, 201),
        ({"sign_urls": True, "streams": ["{path}"]}, 201),
        ({"sign_urls": True, "streams": {"write": ["{path}"]}}, 403),
        ({"sign_urls": True}, 403),
        ({"sign_urls": False, "streams": ["{path}"]}, 403),
        ({"streams": ["**"]}, 403),
        ({"sign_urls": "yes"}, 401),
    ],
)
def test_signing_needs_its_claim_and_the_right_to_read(client, guarded, path, claims, status):
    token = guarded.secret.token(**json.loads(json.dumps(claims).replace("{path}", path)))
    reply = client.post("/v1/signed-urls", json={"stream": path}, headers=bearer(token))
    assert reply.status_code == status, reply.text
    partition = client.post("/v1/signed-urls", json={"partition": path}, headers=bearer(token))
    assert partition.status_code == (201 if claims.get("admin") else max(status, 401) if status == 401 else 403)


def test_a_signed_url_never_outlives_the_token_of_its_maker(client, guarded, path):
    expires_s = int(time.time()) + 100
    token = guarded.secret.token(admin=True, exp=expires_s)
    made = client.post("/v1/signed-urls", json={"stream": path, "expires_in_s": 3000}, headers=bearer(token))
    assert datetime.fromisoformat(made.json()["expires_at"]).timestamp() == expires_s


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "exactly one"),
        ({"stream": "a", "partition": "b"}, "exactly one"),
        ({"stream": "a", "url": "/v1/stream/a"}, "exactly one"),
        ({"stream": None}, "stream"),
        ({"stream": "a", "expires_in_s": 0}, "expires_in_s"),
        ({"stream": "a", "expires_in_s": 3601}, "expires_in_s"),
        ({"stream": "a", "expires_in": 60}, "expires_in"),
        ({"stream": "a/../b"}, "'..'"),
        ({"stream": ""}, "empty"),
        ({"stream": "__ds/jwks.json"}, "not a stream"),
        ({"partition": ""}, "partition"),
        ({"url": "/v1/streams"}, "only URLs of streams"),
        ({"url": "/v1/stream/__ds/keys/rotate"}, "only URLs of streams"),
        ({"url": "/v1/log"}, "only URLs of streams"),
        ({"url": "ftp://host/v1/stream/a"}, "must begin with http"),
        ({"url": "//host/v1/stream/a"}, "must begin with http"),
        ({"url": "http://[/v1/stream/a"}, "not a URL"),
        ({"url": "/v1/stream/a#b"}, "fragment"),
        ({"url": "/v1/stream/a\r\nb"}, "control characters"),
        ({"url": "/v1/stream/%2e%2e"}, "'..'"),
        ({"url": "/v1/stream/a?signature=x"}, "already has a signature"),
    ],
)
def test_a_body_that_names_nothing_to_sign_is_refused(admin, body, detail):
    reply = admin.post("/v1/signed-urls", json=body)
    assert reply.status_code == 400, reply.text
    assert detail in reply.json()["detail"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_signing_is_a_post(admin, method):
    assert admin.request(method, "/v1/signed-urls").status_code == 405


def test_a_server_with_public_keys_only_cannot_sign(start_thread, connect_to, tmp_path, path):
    rsa = Issuer("RS256", "rsa")
    client = connect_to(start_thread(store="memory", jwks=write_jwks(tmp_path / "jwks.json", rsa)))
    client.headers.update(bearer(rsa.token(admin=True)))
    reply = client.post("/v1/signed-urls", json={"stream": path})
    assert (reply.status_code, code_of(reply)) == (409, "no_signing_secret")
    assert "where you sign your tokens" in reply.json()["hint"]


def test_a_server_without_tokens_has_nothing_to_sign(start_thread, connect_to):
    reply = connect_to(start_thread(store="memory")).post("/v1/signed-urls", json={"stream": "a"})
    assert (reply.status_code, code_of(reply)) == (409, "tokens_not_required")


def test_the_command_signs_urls(start_server, connect_to, tmp_path):
    issuer = write_secret(tmp_path / "secret")
    server = start_server("--store", "memory", "--jwt-secret-file", str(tmp_path / "secret"))
    client = connect_to(server)
    client.put(ROOT + "chat/1", headers={**TEXT, **bearer(issuer.token(admin=True))}, content=b"data")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "token", "--secret-file", str(tmp_path / "secret"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    made = run("--url", f"{server.url}{ROOT}chat/1")
    assert (made.returncode, made.stderr) == (0, "")
    assert client.get(made.stdout.strip()).content == b"data"
    found = json.loads(run("--url", f"{server.url}{ROOT}chat/1", "--expires-in", "1h", "--json").stdout)
    assert set(found) == {"url", "expires_at"}
    assert client.get(found["url"]).content == b"data"
    assert found["expires_at"] > time.time() + 3500
    for wrong, reason in {
        ("--url", f"{server.url}/v1/streams"): "only URLs of streams and partitions",
        ("--url", "/v1/stream/a", "--expires-in", "2h"): "1 to 3600 seconds",
        ("--url", "/v1/stream/a", "--admin"): "leave out the grants",
        ("--client-id", "c", "--stream-prefix", "/s"): "has no effect without --url",
    }.items():
        failed = run(*wrong)
        assert failed.returncode == 2
        assert reason in " ".join(failed.stderr.split())
    signer = run("--client-id", "c", "--sign-urls", "--read", "chat/*").stdout.strip()
    assert client.post("/v1/signed-urls", json={"stream": "chat/1"}, headers=bearer(signer)).status_code == 201


def test_a_program_signs_urls(secret_file, start_thread, connect_to, path):
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, store="memory")
    client = connect_to(server)
    client.put(ROOT + path, headers={**TEXT, **bearer(issuer.token(admin=True))}, content=b"data")
    secret = Path(file).read_bytes()
    for form in (secret, secret.strip(), secret.decode()):
        assert client.get(sign_url(f"{server.url}{ROOT}{path}", form)).content == b"data"


@pytest.mark.parametrize(
    ("url", "secret", "options"),
    [
        ("/v1/stream/a", "short", {}),
        ("/v1/stream/a", "x" * 64, {"expires_in_s": 3601}),
        ("/v1/stream/a", "x" * 64, {"expires_in_s": 0}),
        ("/v1/stream/a", "x" * 64, {"stream_prefix": "/streams"}),
        ("v1/stream/a", "x" * 64, {}),
    ],
)
def test_a_program_that_signs_nonsense_gets_an_error(url, secret, options):
    with pytest.raises(MainstemError):
        sign_url(url, secret, **options)


async def test_a_mounted_app_verifies_and_makes_signed_urls(secret_file, secret):
    file, issuer = secret_file
    mainstem = create_app(store="memory", jwt_secret_file=file, stream_prefix="/s")
    host = Starlette(routes=[Mount("/log", mainstem)])
    async with (
        mainstem.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url="http://host/log") as client,
    ):
        token = bearer(issuer.token(admin=True))
        await client.put("/s/a", headers={**TEXT, **token}, content=b"data")
        made = await client.post("/v1/signed-urls", json={"stream": "a"}, headers=token)
        assert made.json()["url"].startswith("http://host/log/s/a?signature=")
        assert (await client.get(made.json()["url"])).content == b"data"
        by_hand = sign_url("http://host/log/s/a", secret, stream_prefix="/s")
        assert (await client.get(by_hand)).content == b"data"
        signature = by_hand.partition("=")[2]
        assert (await client.get(f"/s/log/s/a?signature={signature}")).status_code == 403
        assert (await client.get(f"/s/b?signature={signature}")).status_code == 403


# Logs


def test_no_log_trace_or_metric_has_a_signature(tmp_path):
    issuer = write_secret(tmp_path / "secret")
    collector = Collector()
    output = tmp_path / "output"
    flags = ["--port", "0", "--store", "memory", "--jwt-secret-file", str(tmp_path / "secret"), "--metrics", "on"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*SERVE, *flags, "--access-log", "json", "--log-level", "debug"],
            stdout=file,
            stderr=file,
            env=os.environ | export_to(collector.url),
        )
    try:
        ready = eventually(lambda: re.search(r"ready on (http://127\.0\.0\.1:\d+)", output.read_text()))
        admin = bearer(issuer.token(admin=True))
        signatures = {
            "good": issuer.token(read_url={"stream": "a"}, exp=soon()),
            "expired": issuer.token(read_url={"stream": "a"}, exp=time.time() - 1),
            "foreign": issuer.token(read_url={"stream": "b"}, exp=soon()),
            "forged": Issuer("HS256").token(read_url={"stream": "a"}, exp=soon()),
        }
        with httpx2.Client(base_url=ready[1], timeout=60, trust_env=False) as client:
            client.put(ROOT + "a", headers={**TEXT, **admin}, content=b"data")
            client.post(ROOT + "a", headers={**TEXT, **admin, "stream-closed": "true"}, content=b"more")
            replies = {}
            for name, signature in signatures.items():
                for query in ("", "offset=-1&live=sse&"):
                    url = f"{ROOT}a?{query}signature={signature}"
                    referer = {"referer": f"{ready[1]}{url}", "x-request-id": f"{name}-request"}
                    replies[name] = client.get(url, headers=referer)
                client.post(f"{ROOT}a?signature={signature}", headers={**TEXT, **admin})  # 400
                client.get(f"/v1/whoami?signature={signature}")
            made = client.post("/v1/signed-urls", json={"stream": "a"}, headers=admin).json()["url"]
            assert client.get(made).status_code == 200
            assert client.get("/v1/stream/a", headers={**admin, "x-request-id": "last"}).status_code == 200
            metrics = client.get("/metrics", headers=admin).text
        assert [reply.status_code for reply in replies.values()] == [200, 401, 403, 401]
        eventually(lambda: '"request_id":"last"' in output.read_text())
        collector.wait_for("POST /v1/signed-urls")
    finally:
        process.terminate()
        process.wait(30)
        collector.close()
    shown = output.read_text() + metrics + "".join(map(str, collector.spans))
    shown += "".join(reply.text + str(reply.headers) for reply in replies.values())
    assert '"path":"/v1/stream/a"' in shown
    assert "signature_invalid" in shown
    for secret in (*signatures.values(), made):
        for part in secret.split("signature=")[-1].split(".")[1:]:  # the header is the same in all tokens
            assert part not in shown
