"""The id of a log, and the epochs of its restored copies."""

from mainstem import limits
from mainstem.log.identity import (
    IDENTITY_KEY,
    Epoch,
    LogIdentity,
    SettleIdentity,
    begin_epoch,
    find_epoch,
)
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import CommittedId
from tests.support.book import Book

NEW = LogIdentity("abc")


def pairs(identity):
    return [(epoch.after, epoch.name) for epoch in identity.epochs]


def test_a_restored_copy_begins_an_epoch_after_its_last_record():
    once = begin_epoch(NEW, 100, "aa")
    twice = begin_epoch(once, 150, "bb")
    assert (twice.id, pairs(twice)) == ("abc", [(0, "0"), (100, "1-aa"), (150, "2-bb")])
    found = [find_epoch(pairs(twice), committed_id) for committed_id in (1, 100, 101, 150, 151, 9_999)]
    assert found == ["0", "0", "1-aa", "1-aa", "2-bb", "2-bb"]


def test_an_epoch_without_records_is_forgotten():
    once = begin_epoch(NEW, 100, "aa")
    assert pairs(begin_epoch(once, 100, "bb")) == [(0, "0"), (100, "2-bb")]
    assert pairs(begin_epoch(NEW, 0, "aa")) == [(0, "1-aa")]


def test_the_oldest_epochs_are_forgotten_and_their_records_belong_to_none():
    identity = NEW
    for number in range(1, limits.EPOCHS_MAX + 6):
        identity = begin_epoch(identity, number * 10, "aa")
    assert len(identity.epochs) == limits.EPOCHS_MAX
    assert identity.epoch == Epoch((limits.EPOCHS_MAX + 5) * 10, f"{limits.EPOCHS_MAX + 5}-aa")
    assert find_epoch(pairs(identity), identity.epochs[0].after) is None
    assert find_epoch(pairs(identity), identity.epochs[0].after + 1) == identity.epochs[0].name


def test_the_first_start_makes_an_identity_and_no_later_one_changes_it():
    book = Book()
    assert book.run(SettleIdentity("abc", "aa", "")) == NEW
    assert book.run(SettleIdentity("def", "bb", "")) == NEW
    assert book.states == {IDENTITY_KEY: NEW}


def test_a_store_with_another_origin_begins_an_epoch():
    book = Book()
    book.run(SettleIdentity("abc", "aa", "cluster/1"))
    book.records = [None] * 7
    moved = book.run(SettleIdentity("def", "bb", "cluster/2"))
    assert (moved.id, pairs(moved)) == ("abc", [(0, "0"), (7, "1-bb")])
    assert book.run(SettleIdentity("def", "cc", "cluster/2")) == moved


def test_what_an_older_version_has_pruned_is_of_unknown_streams():
    book = Book()
    book.states[PRUNED_KEY] = Pruned(CommittedId(40))
    book.run(SettleIdentity("abc", "aa", ""))
    assert book.states[PRUNED_KEY] == Pruned(CommittedId(40), CommittedId(40))
