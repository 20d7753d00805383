"""PUT, HEAD and DELETE."""

import httpx2
import pytest

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
START = "0000000000000000_0000000000000000"


def offset(position, read_seq=0):
    return f"{read_seq:016d}_{position:016d}"


def test_a_new_stream_returns_201_with_its_absolute_url(client, path):
    created = client.put(path, headers=TEXT)
    assert created.status_code == 201
    assert created.headers["location"] == str(client.base_url.join(path))
    assert created.headers["stream-next-offset"] == START
    assert created.headers["content-type"] == "text/plain"
    assert "stream-closed" not in created.headers
    assert created.content == b""


def test_the_location_is_the_url_that_the_client_used_with_its_proxy(client, path):
    proxied = {"x-forwarded-proto": "https", "x-forwarded-host": "streams.example.org"}
    created = client.put(path + "/a%20b", headers=TEXT | proxied)
    assert created.headers["location"] == f"https://streams.example.org{path}/a%20b"


def test_of_several_proxies_the_one_nearest_to_the_client_counts(client, path):
    proxied = {"x-forwarded-proto": "https, http", "x-forwarded-host": "streams.example.org, inner:8080"}
    assert client.put(path, headers=TEXT | proxied).headers["location"] == f"https://streams.example.org{path}"


def test_the_same_stream_again_returns_200_without_a_location(client, path):
    client.put(path, headers=TEXT)
    again = client.put(path, headers=TEXT | {"content-type": "Text/Plain;charset=utf-8"})
    assert again.status_code == 200
    assert "location" not in again.headers
    assert again.headers["content-type"] == "text/plain"


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        (TEXT, JSON),
        (TEXT, TEXT | {"stream-ttl": "60"}),
        (TEXT | {"stream-ttl": "60"}, TEXT | {"stream-ttl": "61"}),
        (TEXT | {"stream-ttl": "60"}, TEXT),
        (TEXT, TEXT | {"stream-expires-at": "2100-01-01T00:00:00Z"}),
        (TEXT | {"stream-expires-at": "2100-01-01T00:00:00Z"}, TEXT | {"stream-expires-at": "2100-01-01T00:00:01Z"}),
        (TEXT, TEXT | {"stream-closed": "true"}),
        (TEXT | {"stream-closed": "true"}, TEXT),
    ],
)
def test_a_different_configuration_is_a_conflict(client, path, there, asked):
    assert client.put(path, headers=there).status_code == 201
    assert client.put(path, headers=there).status_code == 200
    refused = client.put(path, headers=asked)
    assert refused.status_code == 409
    assert refused.json()["code"] == "stream_exists"


def test_without_a_content_type_a_stream_holds_octets(client, path):
    assert client.put(path).headers["content-type"] == "application/octet-stream"
    assert client.put(path, headers={"content-type": "application/octet-stream"}).status_code == 200


def test_the_body_of_a_create_is_the_first_content(client, path):
    created = client.put(path, headers=TEXT, content=b"hello")
    assert created.headers["stream-next-offset"] == offset(5)
    assert client.get(path).content == b"hello"


def test_the_body_of_a_repeated_create_is_not_stored_again(client, path):
    for status in (201, 200, 200):
        assert client.put(path, headers=TEXT, content=b"hello").status_code == status
    assert client.get(path).content == b"hello"


def test_a_json_body_is_flattened_and_an_empty_array_is_an_empty_stream(client, path):
    client.put(path + "/a", headers=JSON, content=b'[{"n":1}, 2.0]')
    assert client.get(path + "/a").content == b'[{"n":1},2.0]'
    created = client.put(path + "/b", headers=JSON, content=b"[]")
    assert created.status_code == 201
    assert created.headers["stream-next-offset"] == START
    assert client.get(path + "/b").content == b"[]"


def test_a_stream_can_be_created_closed_with_all_of_its_content(client, path):
    created = client.put(path, headers=TEXT | {"stream-closed": "true"}, content=b"all")
    assert created.headers["stream-closed"] == "true"
    read = client.get(path)
    assert (read.content, read.headers["stream-closed"]) == (b"all", "true")
    assert client.post(path, headers=TEXT, content=b"more").status_code == 409


def test_head_describes_the_stream_and_is_never_cached(client, path):
    client.put(path, headers=TEXT | {"stream-ttl": "3600"}, content=b"hello")
    about = client.head(path)
    assert about.status_code == 200
    assert about.content == b""
    assert about.headers["content-type"] == "text/plain"
    assert about.headers["stream-next-offset"] == offset(5)
    assert about.headers["stream-ttl"] == "3600"
    assert about.headers["cache-control"] == "no-store"
    assert "stream-closed" not in about.headers
    client.post(path, headers={"stream-closed": "true"})
    assert client.head(path).headers["stream-closed"] == "true"


def test_head_echoes_an_absolute_expiry_as_it_was_written(client, path):
    when = "2100-06-01T12:30:45.250+02:00"
    client.put(path, headers=TEXT | {"stream-expires-at": when})
    assert client.head(path).headers["stream-expires-at"] == when


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_a_stream_that_was_never_created_returns_404(client, path, method):
    missing = client.request(method, path, headers=TEXT, content=b"x" if method == "POST" else None)
    assert missing.status_code == 404
    if method != "HEAD":
        assert missing.json()["code"] == "stream_not_found"


def test_a_deleted_stream_returns_404_to_every_request(client, path):
    client.put(path, headers=TEXT, content=b"x")
    deleted = client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert client.get(path).status_code == 404
    assert client.head(path).status_code == 404
    assert client.delete(path).status_code == 404
    assert client.post(path, headers=TEXT, content=b"x").status_code == 404


def test_old_offsets_never_read_the_data_of_a_path_that_was_created_again(client, path):
    old = client.put(path, headers=TEXT, content=b"old").headers["stream-next-offset"]
    client.delete(path)
    new = client.put(path, headers=TEXT, content=b"new data").headers["stream-next-offset"]
    assert (old, new) == (offset(3), offset(8, read_seq=1))
    for query in (f"offset={START}", f"offset={old}", f"offset={old}&live=long-poll", f"offset={old}&live=sse"):
        gone = client.get(f"{path}?{query}")
        assert gone.status_code == 410
        assert gone.json()["code"] == "offset_gone"
        assert gone.headers["stream-earliest-offset"] == gone.json()["earliest_offset"] == offset(0, read_seq=1)
    assert client.get(f"{path}?offset={offset(0, read_seq=1)}").content == b"new data"
    assert client.get(path).content == b"new data"


def test_offsets_of_a_future_life_are_refused(client, text_stream):
    assert client.get(f"{text_stream}?offset={offset(0, read_seq=1)}").status_code == 400


@pytest.mark.parametrize(
    "name", ["a b", "été/🌊", "a%b", "q?x", "hash#x", "semi;colon=1&and+plus", "…", "x" * 900, "tilde~-_.!*'()"]
)
def test_any_name_without_control_characters_names_its_own_stream(client, path, name):
    url = path + "/" + httpx2.QueryParams({"x": name}).__str__()[2:].replace("+", "%20")
    assert client.put(url, headers=TEXT, content=name.encode()).status_code == 201
    assert client.get(url).content == name.encode()


def test_unsupported_methods_of_a_stream_return_405(client, text_stream):
    for method in ("PATCH", "TRACE"):
        refused = client.request(method, text_stream)
        assert refused.status_code == 405
        assert refused.json()["code"] == "method_not_allowed"
        assert "POST" in refused.headers["allow"]


def test_unknown_paths_return_404(client):
    for path in ("/", "/v1", "/v1/stream", "/v2/stream/x", "/favicon.ico"):
        missing = client.get(path)
        assert missing.status_code == 404
        assert missing.json()["code"] == "not_found"


def test_health_and_readiness_are_reported(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz").json()
    assert ready["status"] == "ready"
    assert ready["head"] >= 0
