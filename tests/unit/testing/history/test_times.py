from mainstem.testing.history.times import Highest


def test_the_highest_value_that_was_known_before_a_time():
    highest = Highest([(5.0, 2, "late"), (1.0, 3, "early"), (7.0, 9, "last")])
    assert highest.before(1.0) is None
    assert highest.before(1.1) == (3, "early")
    assert highest.before(6.0) == (3, "early")
    assert highest.before(8.0) == (9, "last")


def test_nothing_is_known_of_nothing():
    assert Highest([]).before(1.0) is None
