"""The WebSocket's handshake: a token in its URL is refused before anything is spoken."""

import pytest

from tests.support.issuers import bearer


@pytest.mark.parametrize("name", ["token", "access_token", "jwt", "authorization"])
def test_a_token_in_the_url_of_a_socket_is_refused(guarded, shake_hands, name):
    with shake_hands(guarded.server, f"/v1/sync?{name}=abc", bearer(guarded.secret.token(admin=True))) as reply:
        assert reply.status == 400
        assert b'"token_in_url"' in reply.read()


def test_a_socket_is_opened_without_a_token_since_connect_brings_it(guarded, shake_hands):
    with shake_hands(guarded.server, "/v1/sync", {}) as reply:
        assert reply.status == 101


def test_an_open_server_leaves_the_parameters_to_the_application(start_thread, shake_hands):
    with shake_hands(start_thread(store="memory"), "/v1/sync?token=abc", {}) as reply:
        assert reply.status == 101
