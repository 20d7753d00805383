"""`--test-endpoints`: the faults that can be injected, invalid requests, and where the option is refused."""

import httpx2
import pytest

from mainstem.client import AsyncStreams
from mainstem.errors import SettingsError
from mainstem.server import create_app
from mainstem.signed_urls import sign_with_secret
from mainstem.testing.server import ServerNotReady


@pytest.fixture
def http(server):
    with httpx2.Client(base_url=server.url, trust_env=False) as http:
        yield http


@pytest.fixture
def stream(http, path):
    http.put(f"/v1/stream/{path}", headers={"content-type": "text/plain"}, content=b"data")
    return f"/v1/stream/{path}"


def test_a_fault_applies_to_its_path_and_as_often_as_requested(http, stream, path, faults):
    faults.inject(path, status=503, count=2, retryAfter=7)
    assert http.get("/healthz").status_code == 200
    statuses = [http.get(stream) for _ in range(3)]
    assert [response.status_code for response in statuses] == [503, 503, 200]
    assert statuses[0].headers["retry-after"] == "7"
    assert statuses[0].json()["code"] == "injected_fault"


def test_a_fault_may_name_the_whole_path_and_all_faults_can_be_cleared(http, stream, faults):
    faults.inject(stream, status=500, count=5)
    assert http.head(stream).status_code == 500
    faults.clear()
    assert http.head(stream).status_code == 200


def test_appends_can_fail_too(http, stream, path, faults):
    faults.inject(path, method="POST", dropReply=True)
    with pytest.raises(httpx2.TransportError):
        http.post(stream, content=b"more", headers={"content-type": "text/plain"})
    assert http.get(stream).text == "datamore", "the append was carried out"
    faults.inject(path, method="POST", dropConnection=True)
    with pytest.raises(httpx2.TransportError):
        http.post(stream, content=b"most", headers={"content-type": "text/plain"})
    assert http.get(stream).text == "datamore"


def test_a_body_is_truncated_with_and_without_an_error(http, stream, path, faults):
    faults.inject(path, truncateBodyBytes=2)
    assert http.get(stream).content == b"da"
    faults.inject(path, dropAfterBytes=2)
    with pytest.raises(httpx2.TransportError):
        http.get(stream)
    faults.inject(path, corruptBody=True)
    assert http.get(stream).content == b"\xe4ata"


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"path": "x", "unknown": 1}', '{"path": "x", "count": 0}', '{"path": "x", "status": 99}', "{"]
)
def test_an_invalid_fault_is_refused(http, body):
    response = http.post("/_test/inject-error", content=body)
    assert response.status_code == 400
    assert "not a fault" in response.json()["detail"]


def test_other_methods_are_refused(http):
    assert http.get("/_test/inject-error").status_code == 405


def test_without_the_flag_the_path_does_not_exist(start_server):
    server = start_server()
    response = httpx2.post(f"{server.url}/_test/inject-error", json={"path": "x"}, trust_env=False)
    assert response.status_code == 404


def test_the_endpoint_needs_a_loopback_address(start_server):
    with pytest.raises(ServerNotReady, match="loopback"):
        start_server("--test-endpoints", "--host", "0.0.0.0", "--insecure")


def test_with_tokens_the_endpoint_needs_the_admin_claim(start_server, tmp_path):
    secret = b"a secret of at least thirty-two bytes"
    (tmp_path / "secret").write_bytes(secret)
    server = start_server("--test-endpoints", "--jwt-secret-file", str(tmp_path / "secret"))

    def send(method, token):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, trust_env=False, headers=headers) as http:
            fault = {"path": "/healthz", "status": 500}
            body = fault if method == "POST" else None
            return http.request(method, "/_test/inject-error", json=body).status_code

    writer, admin = (sign_with_secret(claims, secret) for claims in (b'{"streams": ["**"]}', b'{"admin": true}'))
    for method in ("POST", "DELETE"):
        assert [send(method, token) for token in (None, writer, admin)] == [401, 403, 204]
    assert httpx2.get(f"{server.url}/healthz", trust_env=False).status_code == 200


def test_an_embedded_server_refuses_the_setting(tmp_path):
    with pytest.raises(SettingsError, match="mainstem serve"):
        create_app(test_endpoints=True, data=str(tmp_path))


async def test_the_server_still_serves_everything_else(server, path):
    async with AsyncStreams(server.url) as streams:
        await streams.create(path, "application/json")
        await streams.append(path, 1)
        assert await streams.read_json(path) == [1]


def test_a_page_of_another_site_cannot_inject_a_fault(http, stream):
    fault = {"path": stream, "status": 500, "count": 1}
    reply = http.post("/_test/inject-error", json=fault, headers={"origin": "http://evil.example"})
    assert (reply.status_code, reply.json()["code"]) == (403, "origin_not_allowed")
    assert http.head(stream).status_code == 200
