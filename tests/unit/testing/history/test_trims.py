import pytest

from mainstem.streams.rules.offsets import Offset
from tests.support.histories import Story


@pytest.fixture
def story() -> Story:
    """A stream `s` that keeps 6 bytes, and has three appends of 3 bytes."""
    story = Story()
    story.create(bytes_kept=6)
    for message in ("aa", "bb", "cc"):
        story.append(message)
    return story


def test_a_stream_may_lose_its_first_appends(story):
    story.head_of(earliest=Offset(0, 0))
    earliest = story.trim(1)
    story.head_of(earliest=earliest)
    story.read(messages=("bb", "cc"), earliest=earliest)
    story.read(since=Offset(0, 0), messages=(), next=None, earliest=earliest, refusal="offset_gone")
    story.read(since=earliest, messages=("bb", "cc"))
    assert story.rules() == set()


def test_an_append_that_must_be_kept(story):
    story.trim(1)
    story.head_of(earliest=story.trim(1))
    assert story.rules() == {"trimmed too much"}


def test_what_was_sent_later_is_no_reason_to_trim(story):
    story.head_of(earliest=Offset(0, 6))
    story.append("dd")
    story.trim(2)
    assert story.rules() == {"trimmed too much"}


def test_a_part_of_an_append_that_is_trimmed(story):
    story.append("dd", "ee")
    story.head_of(earliest=story.trim(4))
    assert "trim within an append" in story.rules()


def test_a_trim_that_is_undone(story):
    story.head_of(earliest=Offset(0, 3))
    story.read(earliest=Offset(0, 0))
    assert story.rules() == {"trim undone"}


def test_a_page_from_before_the_beginning(story):
    story.head_of(earliest=Offset(0, 3))
    story.read(since=Offset(0, 0))
    assert story.rules() == {"trimmed but readable"}


def test_an_offset_that_is_not_gone(story):
    story.head_of(earliest=story.trim(1))
    story.read(since=Offset(0, 3), messages=(), next=None, earliest=Offset(0, 3), refusal="offset_gone")
    assert story.rules() == {"offset refused"}
