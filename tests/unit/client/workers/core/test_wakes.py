from mainstem.client.workers.core.wakes import Claim, Wake, WakeStream


def test_the_token_of_a_wake_is_not_printed():
    wake = Wake("billing", "w_1", 3, (WakeStream("a", "0", "1"),), "https://x/callback", "secret")
    assert "secret" not in f"{wake} {wake!r}"
    assert "billing" in repr(wake)


def test_a_claim_has_its_lease_in_seconds():
    assert Claim("w_1", 1, "token", (), 1500).lease_s == 1.5
