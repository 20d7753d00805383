"""A log in a dict, and the commands that the tests run on it."""

from mainstem.log.commands import View
from mainstem.log.records import CommittedId, Kind
from mainstem.streams.commands.append import Append
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.states import ProducerTuple, stream_key

TEXT = "text/plain"


class Book:
    """Runs one command per batch: no server, no disk."""

    def __init__(self):
        self.states = {}
        self.records = []
        self.now_us = 1_000_000

    def run(self, command):
        view = View({key: self.states.get(key) for key in command.needs()}, CommittedId(len(self.records)), self.now_us)
        before = dict(self.states), list(self.records)
        try:
            outcome = view.run(command)
        except Exception:
            assert not view.changes  # a refused command changes nothing
            assert not view.records
            assert before == (self.states, self.records)
            raise
        self.records += view.records
        for key, state in view.changes.items():
            if state is None:
                self.states.pop(key, None)
            else:
                self.states[key] = state
        return outcome

    def stream(self, path="s"):
        return self.states[stream_key(path)]

    def data(self, path="s"):
        topic = self.stream(path).topic
        return b"".join(record.data for record in self.records if record.topic == topic and record.kind is Kind.APPEND)


def text(data):
    return Messages(data, 1)


def append(data=b"x", *, path="s", content_type=TEXT, **fields):
    return Append(path, content_type, text(data), **fields)


def close(**fields):
    return Append("s", None, None, closes=True, **fields)


def producer(epoch, seq, producer_id="p"):
    return ProducerTuple(producer_id, epoch, seq)
