"""What a token may see of resources that cover more than one stream."""

import pytest

from tests.auth.endpoints import ROOT, SUBSCRIPTIONS, make_closed, make_stream
from tests.support.issuers import bearer


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
