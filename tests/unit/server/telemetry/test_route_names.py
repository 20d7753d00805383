import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.server.telemetry.route_names import UNMATCHED, name_route
from mainstem.streams.rules.paths import Mount

MOUNT = Mount("/v1/stream")


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("POST", b"/v1/stream/a/b", "/v1/stream/{path}"),
        ("GET", b"/v1/stream/a?offset=-1", "/v1/stream/{path}"),
        ("GET", b"/v1/stream/a?offset=-1&live=sse", "/v1/stream/{path}?live=sse"),
        ("GET", b"/v1/stream/a?live=long%2Dpoll", "/v1/stream/{path}?live=long-poll"),
        ("GET", b"/v1/stream/a?live=whatever", "/v1/stream/{path}"),
        ("POST", b"/v1/stream/a?live=sse", "/v1/stream/{path}"),
        ("PUT", b"/v1/stream/__ds/subscriptions/mine", "/v1/stream/__ds/subscriptions/{id}"),
        ("POST", b"/v1/stream/__ds/subscriptions/mine/claim", "/v1/stream/__ds/subscriptions/{id}/claim"),
        ("DELETE", b"/v1/stream/__ds/subscriptions/a/streams/b/c", "/v1/stream/__ds/subscriptions/{id}/streams"),
        ("POST", b"/v1/stream/__ds/subscriptions/mine/nonsense", "/v1/stream/__ds/subscriptions/{id}"),
        ("GET", b"/v1/stream/__ds/jwks.json", "/v1/stream/__ds/jwks.json"),
        ("GET", b"/v1/stream/__ds/anything", "/v1/stream/__ds/{name}"),
        ("GET", b"/v1/partition/p?live=sse", "/v1/partition/{name}?live=sse"),
        ("GET", b"/v1/log?live=sse", "/v1/log?live=sse"),
        ("GET", b"/metrics", "/metrics"),
        ("GET", b"/v1/sync", "/v1/sync"),
        ("GET", b"/wp-login.php", UNMATCHED),
    ],
)
def test_a_route_is_named_by_its_template(method, target, name):
    path, _, query = target.partition(b"?")
    assert name_route(MOUNT, method, path, query) == name


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_a_client_cannot_choose_the_name(path, query):
    names = {name_route(MOUNT, method, b"/" + path, query) for method in ("GET", "POST", "DELETE")}
    assert all(len(name) < 64 and (name == UNMATCHED or name.startswith("/")) for name in names)
    assert path == b"" or not any(path.decode("latin-1") in name for name in names if len(path) > 40)
