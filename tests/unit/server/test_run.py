"""Which addresses may be served without authentication, and what a ready server suggests."""

import pytest

from mainstem.errors import SettingsError
from mainstem.server.run import check_exposure, suggest_requests
from mainstem.server.settings import Settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_needs_no_confirmation(host):
    check_exposure(Settings(host=host))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "8.8.8.8", "example.org", "", "::ffff:8.8.8.8"]
)
def test_a_public_address_is_refused_unless_the_operator_insists(host):
    with pytest.raises(SettingsError, match="--insecure"):
        check_exposure(Settings(host=host))
    check_exposure(Settings(host=host, insecure=True))


def test_the_requests_to_try_suit_the_prefix_the_tokens_and_the_socket():
    settings = Settings(stream_prefix="/v1/streams", jwt_secret_file="secret")
    first, create, read, last = suggest_requests("unix:/run/main stem.sock", settings).splitlines()
    options = "-H \"Authorization: Bearer $TOKEN\" --unix-socket '/run/main stem.sock'"
    assert create.startswith(f"  curl -i {options} -X PUT http://localhost/v1/streams/hello ")
    assert read == f"  curl {options} http://localhost/v1/streams/hello"
    assert (first[-1], last[-1]) == (":", ".")
    plain = suggest_requests("http://127.0.0.1:4437", Settings()).splitlines()
    assert plain[2] == "  curl http://127.0.0.1:4437/v1/stream/hello"
