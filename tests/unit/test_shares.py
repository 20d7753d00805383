import pytest

from mainstem.access import Identity, name_caller
from mainstem.errors import ShareExceeded
from mainstem.shares import Share, Shares

READERS = Share.LIVE_READERS


def test_an_owner_holds_its_share_and_no_more():
    shares = Shares({READERS: 3})
    shares.take("ada", READERS, 2)
    with pytest.raises(ShareExceeded) as refused:
        shares.take("ada", READERS, 2)
    assert (refused.value.status, refused.value.facts) == (429, {"share": "live_readers", "limit": 3})
    assert int(refused.value.headers["Retry-After"]) > 0
    shares.take("ada", READERS)  # a refused request was not counted
    with pytest.raises(ShareExceeded):
        shares.take("ada", READERS)


def test_owners_and_kinds_are_counted_separately():
    shares = Shares({READERS: 1, Share.CONNECTIONS: 1})
    shares.take("ada", READERS)
    shares.take("ada", Share.CONNECTIONS)
    shares.take("bob", READERS)
    with pytest.raises(ShareExceeded):
        shares.take("bob", READERS)


def test_a_released_share_can_be_taken_again_and_leaves_no_entry():
    shares = Shares({READERS: 2})
    for number in range(1_000):
        with shares.hold(f"owner {number}", READERS, 2), pytest.raises(ShareExceeded):
            shares.take(f"owner {number}", READERS)
    assert not shares._held


def test_a_share_is_released_when_its_block_fails():
    shares = Shares({READERS: 1})
    with pytest.raises(RuntimeError), shares.hold("ada", READERS):
        raise RuntimeError
    shares.take("ada", READERS)


@pytest.mark.parametrize(
    ("identity", "address", "name"),
    [
        (Identity(client_id="ada", subject="s"), "10.0.0.1", "client ada"),
        (Identity(subject="s"), "10.0.0.1", "subject s"),
        (Identity(), "10.0.0.1", "address 10.0.0.1"),
        (Identity(), "::ffff:10.0.0.1", "address 10.0.0.1"),
        (Identity(), "2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        (Identity(), "2001:db8:1:2::9", "address 2001:db8:1:2::/64"),
        (Identity(), "fe80::1%eth0", "address fe80::/64"),
        (Identity(), "::1", "address ::/64"),
        (Identity(), "testclient", "address testclient"),
    ],
)
def test_a_caller_is_its_client_or_else_its_address_or_network(identity, address, name):
    assert name_caller(identity, (address, 1)) == name


def test_a_caller_on_a_socket_without_addresses_has_a_name_too():
    assert name_caller(Identity(), None) == name_caller(Identity(), ("", 0))
