"""Which addresses are served without a word about authentication."""

import pytest

from mainstem.errors import SettingsError
from mainstem.server.run import check_exposure
from mainstem.server.settings import Settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_needs_no_insistence(host):
    check_exposure(Settings(host=host))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "8.8.8.8", "example.org", "", "::ffff:8.8.8.8"]
)
def test_a_public_address_is_refused_unless_the_operator_insists(host):
    with pytest.raises(SettingsError, match="--insecure"):
        check_exposure(Settings(host=host))
    check_exposure(Settings(host=host, insecure=True))
