"""What a token may see of resources that cover more than one stream."""

import asyncio
import time
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from mainstem import limits
from tests.auth.endpoints import ROOT, SUBSCRIPTIONS, make_closed, make_stream
from tests.support.issuers import bearer
from tests.support.sync_peers import ConnectionEnded, Peers


@pytest.fixture
def holder(guarded, connect_to):
    """Return a client with a token of these claims."""

    def connect(**claims):
        client = connect_to(guarded.server)
        client.headers.update(bearer(guarded.secret.token(**claims)))
        return client

    return connect


def list_all(client, limit, **query):
    paths, after, pages = [], "", 0
    while True:
        page = client.get("/v1/streams", params={"limit": limit, "after": after, **query}).json()
        paths += [stream["path"] for stream in page["streams"]]
        pages += 1
        if page["next"] is None:
            return paths, pages
        assert len(page["streams"]) == limit
        after = page["next"]


def test_the_list_shows_readable_streams_in_full_pages(admin, holder, path):
    for number in range(7):
        make_stream(admin, f"{path}/mine/{number}")
        make_stream(admin, f"{path}/theirs/{number}")
    mine = [f"{path}/mine/{number}" for number in range(7)]
    reader = holder(streams={"read": [f"{path}/mine/**"]})
    assert list_all(reader, 3) == (mine, 3)
    assert list_all(reader, 7) == (mine, 1)
    assert list_all(reader, 3, prefix=path) == (mine, 3)
    assert list_all(reader, 3, prefix=f"{path}/theirs") == ([], 1)
    assert list_all(reader, 3, prefix=f"{path}/mine/6") == (mine[6:], 1)
    odd = holder(streams={"read": [f"{path}/*/1", f"{path}/mine/3"]})
    assert list_all(odd, 2) == ([f"{path}/mine/1", f"{path}/mine/3", f"{path}/theirs/1"], 2)
    assert list_all(holder(streams={"write": [f"{path}/**"]}), 3) == ([], 1)
    assert list_all(admin, 4, prefix=path + "/")[1] == 4


def test_a_stream_with_the_name_of_a_granted_folder_is_listed(admin, holder, path):
    make_stream(admin, path)
    make_stream(admin, path + "/a")
    make_stream(admin, path + "x")
    assert list_all(holder(streams=[path + "/**"]), 10) == ([path, path + "/a"], 1)


def test_the_list_names_the_source_of_a_fork_only_to_its_readers(admin, holder, path):
    make_stream(admin, path + "/source")
    forked = admin.put(f"{ROOT}{path}/fork", headers={"stream-forked-from": f"{ROOT}{path}/source"})
    assert forked.status_code == 201
    for claims, told in [({"streams": [path + "/**"]}, path + "/source"), ({"streams": [path + "/fork"]}, None)]:
        listed = holder(**claims).get("/v1/streams", params={"prefix": path + "/fork"}).json()["streams"]
        assert [stream["forked_from"] for stream in listed] == [told]


def test_a_fork_needs_read_access_to_its_source(admin, holder, path):
    make_stream(admin, path + "/source")
    fork = {"stream-forked-from": f"{ROOT}{path}/source"}
    writer = holder(streams=[path + "/fork"])
    assert writer.put(f"{ROOT}{path}/fork", headers=fork).status_code == 403
    missing = {"stream-forked-from": f"{ROOT}{path}/missing"}
    assert writer.put(f"{ROOT}{path}/fork", headers=missing).status_code == 403
    both = holder(streams={"read": [path + "/source"], "write": [path + "/fork"]})
    assert both.put(f"{ROOT}{path}/fork", headers=fork).status_code == 201


def test_a_set_needs_read_access_to_each_of_its_streams(admin, holder, path):
    make_closed(admin, path + "/a")
    make_closed(admin, path + "/b")
    reader = holder(streams=[path + "/a", path + "/c"])
    url = "/v1/stream-set?live=sse"
    assert reader.get(f"{url}&stream={path}/a").status_code == 200
    assert reader.get(f"{url}&stream={path}/a&stream={path}/b").status_code == 403
    # c is missing and b is forbidden: the refusal comes first, whatever else is wrong.
    assert reader.get(f"{url}&stream={path}/c&stream={path}/b").status_code == 403
    assert reader.get(f"{url}&stream={path}/c").status_code == 404


def test_a_subscription_needs_access_to_its_whole_pattern(admin, holder, path):
    wakes = path + "/wakes"
    url = SUBSCRIPTIONS + path.replace("/", "-")

    def subscribe(client, **config):
        return client.put(url, json={"type": "pull-wake", "wake_stream": wakes, **config}).status_code

    part = holder(streams={"read": [path + "/a/*"], "write": [wakes]})
    assert subscribe(part, pattern=path + "/a/**") == 403
    assert subscribe(part, pattern="**") == 403
    assert subscribe(part, pattern=path + "/a/*", streams=[path + "/b"]) == 403
    assert subscribe(part, pattern="/" + path + "/a/*") == 201
    unable = holder(streams={"read": [path + "/a/*"]})
    assert subscribe(unable, pattern=path + "/a/*") == 403  # the token may not write the wake stream
    assert unable.get(url).status_code == 200


def test_a_subscription_that_grew_beyond_a_token_is_closed_to_it(admin, holder, path):
    url = SUBSCRIPTIONS + path.replace("/", "-")
    config = {"type": "pull-wake", "wake_stream": path + "/wakes", "streams": [path + "/a"]}
    holder_of_a = holder(streams=[path + "/a", path + "/wakes"])
    assert holder_of_a.put(url, json=config).status_code == 201
    assert holder_of_a.put(url, json=config).status_code == 200
    assert holder_of_a.post(url + "/streams", json={"streams": [path + "/secret"]}).status_code == 403
    assert admin.post(url + "/streams", json={"streams": [path + "/secret"]}).status_code == 204
    refused = [
        holder_of_a.get(url),
        holder_of_a.put(url, json=config),
        holder_of_a.delete(url),
        holder_of_a.post(url + "/claim", json={"worker": "w"}),
        holder_of_a.delete(f"{url}/streams/{path}/a"),
    ]
    for reply in refused:
        assert reply.status_code == 403
        assert "secret" not in reply.text
    assert admin.delete(f"{url}/streams/{path}/secret").status_code == 204
    assert holder_of_a.get(url).status_code == 200


def test_a_missing_subscription_is_not_found(holder):
    assert holder(streams=["a"]).get(SUBSCRIPTIONS + "nobody-made-this").status_code == 404


def test_a_subscription_without_links_belongs_to_its_owner_only(admin, holder, path):
    url = SUBSCRIPTIONS + path.replace("/", "-")
    config = {"type": "pull-wake", "wake_stream": path + "/wakes", "streams": [path + "/a"]}
    rights = {"streams": [path + "/a", path + "/wakes"]}
    owner, subject = holder(client_id="owner", **rights), holder(sub="owner", **rights)
    assert owner.put(url, json=config).status_code == 201
    others = [subject, holder(client_id="other", **rights), holder(**rights), holder(client_id="nobody")]
    assert [other.get(url).status_code for other in others] == [200, 200, 200, 403]
    assert owner.delete(f"{url}/streams/{path}/a").status_code == 204
    for other in others:
        refused = [
            other.get(url),
            other.put(url, json=config),
            other.post(url + "/streams", json={"streams": [path + "/a"]}),
            other.post(url + "/claim", json={"worker": "w"}),
            other.delete(url),
        ]
        assert {reply.status_code for reply in refused} <= {403}
    assert owner.get(url).json()["streams"] == []
    assert admin.get(url).status_code == 200
    listed = admin.get("/v1/subscriptions", params={"prefix": path.replace("/", "-")}).json()["subscriptions"]
    assert [entry["owner"] for entry in listed] == ["client owner"]
    assert owner.delete(url).status_code == 204


def test_a_subscription_without_links_and_owner_needs_an_admin(admin, holder, path):
    url = SUBSCRIPTIONS + path.replace("/", "-")
    config = {"type": "pull-wake", "wake_stream": path + "/wakes", "streams": [path + "/a"]}
    maker = holder(streams=[path + "/a", path + "/wakes"])
    assert maker.put(url, json=config).status_code == 201
    assert maker.delete(f"{url}/streams/{path}/a").status_code == 204
    assert [maker.get(url).status_code, maker.delete(url).status_code] == [403, 403]
    assert admin.delete(url).status_code == 204


def test_a_grant_of_a_stream_does_not_cover_its_name_with_a_trailing_slash(admin, holder, path):
    make_stream(admin, path)
    make_stream(admin, path + "/")
    plain, slashed, both = holder(streams=[path]), holder(streams=[path + "/"]), holder(streams=[path + "/**"])
    assert [plain.get(ROOT + name).status_code for name in (path, path + "/")] == [200, 403]
    assert [slashed.get(ROOT + name).status_code for name in (path, path + "/")] == [403, 200]
    assert [both.get(ROOT + name).status_code for name in (path, path + "/")] == [200, 200]
    assert plain.delete(f"{ROOT}{path}/").status_code == 403
    assert list_all(plain, 10, prefix=path) == ([path], 1)


def list_partitions(client, limit, **query):
    names, after = [], ""
    while True:
        page = client.get("/v1/partitions", params={"limit": limit, "after": after, **query}).json()
        names += [partition["partition"] for partition in page["partitions"]]
        if page["next"] is None:
            return names
        assert len(page["partitions"]) == limit
        assert page["next"] == names[-1]
        after = page["next"]


def test_the_list_of_partitions_shows_those_that_the_token_allows(admin, holder, path):
    for name in ("a", "a/1", "a/2", "ab", "b", "secret", "z"):
        put = admin.put(f"/v1/snapshot/{quote(f'{path}/{name}', safe='')}", json={"committed_id": 0, "state": 1})
        assert put.status_code == 204
    own = {"allowed_partitions": [f"{path}/b", f"{path}/a/1", f"{path}/none"]}
    below = {"allowed_partition_prefixes": [f"{path}/a/", f"{path}/z"]}
    for limit in (1, 2, 3, 100):
        assert list_partitions(holder(**own), limit) == [f"{path}/a/1", f"{path}/b"]
        assert list_partitions(holder(**own, **below), limit) == [f"{path}/{name}" for name in ("a/1", "a/2", "b", "z")]
        assert list_partitions(holder(**own, **below), limit, prefix=f"{path}/a") == [f"{path}/a/1", f"{path}/a/2"]
        assert list_partitions(holder(**own), limit, prefix=f"{path}/secret") == []
        assert list_partitions(holder(client_id="c", streams=["**"]), limit) == []
    assert len(list_partitions(admin, 2, prefix=path)) == 7


def test_a_search_names_no_stream_that_the_token_may_not_read(admin, holder, path, monkeypatch):
    monkeypatch.setattr(limits, "SEARCHED_STREAMS_MAX", 2)
    monkeypatch.setattr(limits, "SCAN_PAGE", 3)
    for number in range(6):
        make_stream(admin, f"{path}/mine/{number}")
        make_stream(admin, f"{path}/theirs/{number}")
        make_stream(admin, f"{path}/zmine/{number}")
    reader = holder(streams={"read": [f"{path}/mine/**", f"{path}/zmine/**"]})
    found, after, pages = [], "", 0
    while after is not None:
        reply = reader.get("/v1/streams", params={"search": "MINE/5", "after": after})
        assert "theirs" not in reply.text
        found += [stream["path"] for stream in reply.json()["streams"]]
        after = reply.json()["next"]
        pages += 1
    assert found == [f"{path}/mine/5", f"{path}/zmine/5"]
    assert pages == 6
    assert admin.get("/v1/streams", params={"search": "theirs", "prefix": path}).json()["streams"] == []


def test_a_session_shows_the_claims_of_its_token(guarded, admin, path):
    expires_s = int(time.time()) + 600
    claims = {"client_id": f"client-{path}", "sub": "ann", "exp": expires_s}
    token = guarded.secret.token(allowed_partitions=["b", "a"], allowed_partition_prefixes=["x/"], **claims)

    async def main():
        async with Peers(guarded.server.address) as peers:
            peer = await peers.join("a", "x/1", client_id=f"client-{path}", token=token)
            listed = (await asyncio.to_thread(admin.get, "/v1/sessions")).json()["sessions"]
            [session] = [session for session in listed if session["client_id"] == f"client-{path}"]
            assert (await asyncio.to_thread(admin.delete, f"/v1/sessions/{session['session']}")).status_code == 204
            with pytest.raises(ConnectionEnded, match="disconnected by an administrator"):
                await peer.next()
            return session

    session = asyncio.run(main())
    assert (session["subject"], session["admin"]) == ("ann", False)
    assert (session["allowed_partitions"], session["allowed_partition_prefixes"]) == (["a", "b"], ["x/"])
    assert datetime.fromisoformat(session["expires_at"]) == datetime.fromtimestamp(expires_s, UTC)
    assert session["subscriptions"] == ["a", "x/1"]


def test_only_an_administrator_may_disconnect_a_session(client, holder):
    assert client.delete("/v1/sessions/1").status_code == 401
    refused = holder(client_id="c", streams=["**"]).delete("/v1/sessions/1")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
