"""The tables of the edge: every listed transition happens, and no other one does."""

import pytest

from mainstem.server.edge.states import (
    READING,
    WRITING,
    IllegalEvent,
    Read,
    Reading,
    Write,
    Writing,
    after_read,
    after_write,
)


@pytest.mark.parametrize("event", Read)
@pytest.mark.parametrize("state", Reading)
def test_reading_follows_its_table(state, event):
    if event in READING[state]:
        assert after_read(state, event) is READING[state][event]
    else:
        with pytest.raises(IllegalEvent):
            after_read(state, event)


@pytest.mark.parametrize("event", Write)
@pytest.mark.parametrize("state", Writing)
def test_writing_follows_its_table(state, event):
    if event in WRITING[state]:
        assert after_write(state, event) is WRITING[state][event]
    else:
        with pytest.raises(IllegalEvent):
            after_write(state, event)


def follow(table, start):
    """Return every state that can be reached."""
    seen = {start}
    while more := {after for state in seen for after in table[state].values()} - seen:
        seen |= more
    return seen


def test_every_state_can_be_reached():
    assert follow(READING, Reading.HEAD) == set(Reading)
    assert follow(WRITING, Writing.IDLE) == set(Writing)


def test_every_state_has_a_row():
    assert (set(READING), set(WRITING)) == (set(Reading), set(Writing))


def test_a_request_begins_once():
    """Only a new cycle leads back to a state where BEGIN is legal."""
    assert [state for state in Writing if Write.BEGIN in WRITING[state]] == [Writing.IDLE]
    assert [state for state in Writing if Writing.IDLE in WRITING[state].values()] == [Writing.COMPLETE]
    assert WRITING[Writing.COMPLETE][Write.NEXT] is Writing.IDLE


@pytest.mark.parametrize("state", [Reading.ENDED, Reading.SWITCHED])
def test_nothing_is_read_after_the_end(state):
    assert follow(READING, state) == {state}


@pytest.mark.parametrize("state", [Writing.ENDED, Writing.SWITCHED])
def test_nothing_is_written_after_the_end(state):
    assert follow(WRITING, state) == {state}
