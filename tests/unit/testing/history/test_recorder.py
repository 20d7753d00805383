from itertools import count

import pytest

from mainstem.testing.history.calls import Append, Broadcast, Event
from mainstem.testing.history.recorder import Recorder


@pytest.fixture
def recorder():
    return Recorder(count(1).__next__)


def test_a_call_lasts_as_long_as_its_block(recorder):
    with recorder.record(Append(client="a", path="s", messages=("m",))) as call:
        with recorder.record(Append(client="b", path="s", messages=("n",))) as other:
            pass
        call.duplicate = True
    assert recorder.calls == [call, other]
    assert [(one.start, one.end) for one in recorder.calls] == [(1, 4), (2, 3)]


def test_a_call_that_raises_has_an_unknown_outcome(recorder):
    with pytest.raises(ConnectionError), recorder.record(Append(client="a", path="s")):
        raise ConnectionError
    (call,) = recorder.calls
    assert (call.start, call.end) == (1, None)


def test_what_arrives_is_recorded_with_its_time(recorder):
    recorder.add(Broadcast(client="a", start=0.5, event=Event(1, "e", ("p",), "{}")))
    (call,) = recorder.calls
    assert (call.start, call.end) == (0.5, 1)
