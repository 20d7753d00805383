"""Every error that crosses a process boundary is found by its code."""

from collections import Counter

from mainstem import errors
from mainstem.errors import MainstemError, SubscriptionError, SyncError, error_class

CROSSING = [
    type_
    for type_ in vars(errors).values()
    if isinstance(type_, type)
    and issubclass(type_, MainstemError)
    and not issubclass(type_, SyncError | SubscriptionError)
]


def test_codes_are_unique():
    assert [code for code, count in Counter(type_.code for type_ in CROSSING).items() if count > 1] == []


def test_each_class_is_found_by_its_code():
    assert [type_ for type_ in CROSSING if error_class(type_.code) is not type_] == []
    assert error_class("of_tomorrow") is MainstemError
