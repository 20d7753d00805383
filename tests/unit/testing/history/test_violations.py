from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Append, Read
from mainstem.testing.history.violations import Violation


def test_an_explanation_shows_the_calls_in_the_order_of_their_starts():
    append = Append(client="writer", start=1, end=2, path="s", messages=("m",), next=Offset(0, 2))
    read = Read(client="reader", start=3, path="s", since=Offset(0, 0))
    assert Violation("lost message", "'m' is missing", (read, append)).explain().splitlines() == [
        "lost message: 'm' is missing",
        "  1.000000 to 2.000000: writer Append(path='s', messages=('m',), next=0000000000000000_0000000000000002)",
        "  3.000000 to never answered: reader Read(path='s', since=0000000000000000_0000000000000000)",
    ]


def test_a_long_value_is_shortened():
    read = Read(client="reader", start=3, end=4, path="s", messages=("m" * 10_000,))
    assert len(Violation("lost message", "", (read,)).explain()) < 400


def test_the_middle_of_a_long_message_is_left_out():
    assert (
        Violation("lost message", f"'w1-7{'.w1-7' * 1_000}' is missing").explain()
        == "lost message: 'w1-7...' is missing"
    )
