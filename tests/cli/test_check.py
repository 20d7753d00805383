"""The check finds every violation of a store: each one is planted into a copy of a healthy store."""

import random

import apsw
import httpx2
import pytest

from mainstem import limits
from mainstem.checks.rules import check_store
from mainstem.log.store.sqlite.connections import PAGE_BYTES
from mainstem.log.store.sqlite.queries import merge_append_index
from mainstem.log.store.sqlite.snapshot import open_snapshot
from mainstem.streams.states import STREAMS
from tests.cli.stores import change_something, submit
from tests.support.violations import VIOLATIONS, StoreEditor


def find_violations(store):
    with open_snapshot(store) as snapshot:
        return check_store(snapshot).findings


class SqliteEditor(StoreEditor):
    def __init__(self, path):
        self.db = apsw.Connection(str(path))

    def execute(self, statement, *values):
        self.db.execute(statement, values)
        return self.db.changes()

    def fetch(self, statement, *values):
        return list(self.db.execute(statement, values))

    def text(self, text):
        return text


@pytest.fixture
def editor(store):
    editor = SqliteEditor(store)
    merge_append_index(editor.db)  # so that the violations below know where the entries are
    yield editor
    editor.db.close()


def test_a_store_with_some_of_everything_has_no_violations(store):
    with open_snapshot(store) as snapshot:
        found = check_store(snapshot)
    assert found.findings == ()
    assert found.figures.head >= found.figures.records > 20


# Only a SQLite store has an index of appends that could differ from its records.


def drop_a_place(s):
    s.sql("DELETE FROM old_places WHERE topic = ?", s.state(STREAMS, "plain").topic)


def invent_a_place(s):
    s.sql("INSERT INTO old_places VALUES (?, 99, 1)", s.state(STREAMS, "plain").topic)


def settle_a_place_and_keep_it(s):
    s.sql("INSERT INTO new_places SELECT * FROM old_places WHERE topic = ?", s.state(STREAMS, "plain").topic)


PLANTED = [
    *VIOLATIONS,
    (drop_a_place, "place", "0 times, not once"),
    (invent_a_place, "place", "lists record 1 in topic"),
    (settle_a_place_and_keep_it, "place", "2 times, not once"),
]


@pytest.mark.parametrize(("plant", "rule", "said"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED])
def test_a_planted_violation_is_found(store, editor, plant, rule, said):
    plant(editor)
    found = find_violations(store)
    assert any(finding.rule == rule and said in finding.detail for finding in found), found


def test_a_torn_page_is_found(store):
    size = store.stat().st_size
    with store.open("r+b") as file:
        for page in range(PAGE_BYTES, size, 3 * PAGE_BYTES):
            file.seek(page + 100)
            file.write(bytes(range(256)) * (PAGE_BYTES // 256 - 1))
    assert any(finding.rule == "file" for finding in find_violations(store))


def test_the_list_of_findings_is_limited(store, editor):
    editor.db.execute("BEGIN")
    for number in range(limits.CHECK_FINDINGS_MAX + 5):
        editor.sql("INSERT INTO tags VALUES (?, 1)", f"tag {number}")
    editor.db.execute("COMMIT")
    with open_snapshot(store) as snapshot:
        found = check_store(snapshot)
    assert (len(found.findings), found.more) == (limits.CHECK_FINDINGS_MAX, True)


# Nothing that the server does is a violation


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_store_has_no_violations_after_any_changes_while_its_server_runs_and_after_a_kill(start_server, seed):
    server = start_server()
    chance = random.Random(seed)
    store = server.data / "mainstem.db"
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for number in range(150):
            change_something(client, chance, number)
            if number % 50 == 49:
                submit(server, [(f"e{number}-{n}", [chance.choice("abc"), "d"], {"n": n}) for n in range(5)])
                head = client.get("/readyz").json()["head"]
                floors = {name: chance.randrange(head) for name in "abcd"}
                client.post("/v1/prune", json={"floors": floors}).raise_for_status()
                assert find_violations(store) == ()
    server.kill()
    assert find_violations(store) == ()
