"""`stream_prefix`: streams under a path that the clients of another server expect."""

import pytest

from mainstem.client import AsyncStreams, BadArgument, Streams
from mainstem.errors import SettingsError
from mainstem.server.settings import load_settings

TEXT = {"content-type": "text/plain"}
ROOT = "/v1/streams/"


@pytest.fixture
def moved(start_thread, connect_to):
    return connect_to(start_thread(stream_prefix="/v1/streams"))


def test_streams_are_served_under_the_prefix_and_nowhere_else(moved):
    made = moved.put(ROOT + "a/b", headers=TEXT, content=b"one")
    assert (made.status_code, made.headers["location"]) == (201, str(moved.base_url) + "/v1/streams/a/b")
    assert moved.post(ROOT + "a/b", headers=TEXT, content=b" two").status_code == 204
    assert moved.post(ROOT + "a/b?x=1", headers=TEXT, content=b" three").status_code == 204
    assert moved.get(ROOT + "a/b").text == "one two three"
    refused = moved.post("/v1/stream/a/b", headers=TEXT, content=b"lost")
    assert refused.status_code == 404
    assert "/v1/streams/" in refused.json()["detail"]
    assert moved.get("/v1/stream/__ds/jwks.json").status_code == 404


def test_the_list_keeps_its_exact_path(moved):
    moved.put(ROOT + "a", headers=TEXT)
    assert [stream["path"] for stream in moved.get("/v1/streams").json()["streams"]] == ["a"]
    assert moved.get("/v1/streams/").json()["code"] == "invalid_path"
    assert moved.post("/v1/streams", headers=TEXT, content=b"x").status_code == 404


def test_a_fork_names_its_source_with_the_prefix(moved):
    moved.put(ROOT + "source", headers=TEXT, content=b"shared")
    old = moved.put(ROOT + "fork", headers={"stream-forked-from": "/v1/stream/source"})
    assert (old.status_code, old.json()["code"]) == (400, "invalid_header")
    assert moved.put(ROOT + "fork", headers={"stream-forked-from": ROOT + "source"}).status_code == 201
    assert moved.get(ROOT + "fork").text == "shared"


def test_subscriptions_and_their_urls_are_under_the_prefix(start_thread, connect_to):
    client = connect_to(start_thread(stream_prefix="/v1/streams", allow_local_webhooks=True))
    config = {"type": "webhook", "pattern": "**", "webhook": {"url": "http://127.0.0.1:1/hook"}}
    made = client.put(ROOT + "__ds/subscriptions/mine", json=config)
    assert made.status_code == 201, made.text
    keys = made.json()["webhook"]["signing"]["jwks_url"]
    assert keys == str(client.base_url) + "/v1/streams/__ds/jwks.json"
    assert client.get(keys).status_code == 200
    assert client.put("/v1/stream/__ds/subscriptions/mine", json=config).status_code == 404


@pytest.mark.parametrize("streams", [Streams, AsyncStreams])
async def test_the_clients_accept_the_prefix(start_thread, streams):
    server = start_thread(stream_prefix="/log/of.all")

    async def finish(value):
        return await value if streams is AsyncStreams else value

    client = streams(server.url, prefix="/log/of.all")
    await finish(client.create("a", "text/plain", body="one"))
    await finish(client.append("a", " two"))
    await finish(client.fork("b", "a"))
    assert await finish(client.read_text("b")) == "one two"
    await finish(client.disconnect())


@pytest.mark.parametrize("prefix", ["v1/streams", "/v1/streams/", "/", "/a//b", "/a/../b", "/a?b", "/ä"])
def test_what_cannot_be_a_prefix_is_refused(prefix):
    with pytest.raises(SettingsError, match="--stream-prefix"):
        load_settings({"stream_prefix": prefix}, {})
    with pytest.raises(BadArgument):
        Streams("http://127.0.0.1:1", prefix=prefix)


@pytest.mark.parametrize("prefix", ["/v1", "/v1/log", "/v1/log/streams", "/v1/stream-set", "/healthz"])
def test_a_prefix_that_would_hide_another_path_is_refused(prefix):
    with pytest.raises(SettingsError, match="conflicts with"):
        load_settings({"stream_prefix": prefix}, {})


def test_only_keys_and_wakes_under_the_prefix_need_no_token(start_thread, connect_to, tmp_path):
    (tmp_path / "secret").write_text("0123456789" * 4)
    settings = {"stream_prefix": "/v1/streams", "jwt_secret_file": str(tmp_path / "secret")}
    client = connect_to(start_thread(**settings))
    assert client.get(ROOT + "__ds/jwks.json").status_code == 200
    assert client.get("/v1/stream/__ds/jwks.json").status_code == 401
    assert client.get(ROOT + "jwks.json").status_code == 401
    wake = client.post(ROOT + "__ds/subscriptions/mine/ack", json={"wake_id": "w", "generation": 1})
    assert wake.json()["code"] == "token_invalid"  # it lacks only the token of the wake
    assert client.post("/v1/stream/__ds/subscriptions/mine/ack", json={}).json()["code"] == "unauthorized"
