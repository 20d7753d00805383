"""The WebSocket handshake: a token in its URL is refused before any message is exchanged."""

import pytest

from tests.support.issuers import bearer


@pytest.mark.parametrize("name", ["token", "access_token", "jwt", "authorization"])
def test_a_token_in_the_url_of_a_websocket_is_refused(guarded, shake_hands, name):
    with shake_hands(guarded.server, f"/v1/sync?{name}=abc", bearer(guarded.secret.token(admin=True))) as reply:
        assert reply.status == 400
        assert b'"token_in_url"' in reply.read()


def test_a_websocket_opens_without_a_token_because_connect_sends_it(guarded, shake_hands):
    with shake_hands(guarded.server, "/v1/sync", {}) as reply:
        assert reply.status == 101


def test_a_server_without_tokens_leaves_query_parameters_to_the_application(start_thread, shake_hands):
    with shake_hands(start_thread(store="memory"), "/v1/sync?token=abc", {}) as reply:
        assert reply.status == 101
