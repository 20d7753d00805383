import pytest

from mainstem.client import BadArgument
from mainstem.client.workers.core.wakes import Claim, Wake, WakeStream, check_kept
from mainstem.streams.rules.offsets import Offset


def test_the_token_of_a_wake_is_not_printed():
    wake = Wake("billing", "w_1", 3, (WakeStream("a", "0", "1"),), "https://x/callback", "secret")
    assert "secret" not in f"{wake} {wake!r}"
    assert "billing" in repr(wake)


def test_a_claim_has_its_lease_in_seconds():
    assert Claim("w_1", 1, "token", (), 1500).lease_s == 1.5


def stream(acked=20, tail=30):
    return WakeStream("a", str(Offset(1, acked)), str(Offset(1, tail)))


@pytest.mark.parametrize("kept", [Offset(0, 99), Offset(1, 10), Offset(1, 20), Offset(1, 30)])
def test_an_application_may_have_kept_any_offset_up_to_the_end(kept):
    check_kept(str(kept), stream())


@pytest.mark.parametrize("kept", ["now", "-1", "", "garbage", 5, b"0", f"{Offset(1, 25)} ", "9" * 33])
def test_an_application_cannot_have_kept_anything_else(kept):
    with pytest.raises(BadArgument, match="offset` of a batch"):
        check_kept(kept, stream())


@pytest.mark.parametrize("kept", [Offset(1, 31), Offset(2, 0)])
def test_an_application_cannot_have_kept_an_offset_after_the_end(kept):
    with pytest.raises(BadArgument, match="ends at"):
        check_kept(str(kept), stream())
