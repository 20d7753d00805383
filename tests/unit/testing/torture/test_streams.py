import time
from collections import defaultdict
from typing import Any, cast

import pytest

from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import Append
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.connections import Reply, Unanswered
from mainstem.testing.torture.streams import Producer


class UnansweredProducer(Producer):
    """A producer that never gets an answer."""

    def __init__(self, seed: str) -> None:
        super().__init__("p", cast(Any, [None]), Recorder(time.perf_counter), seed)
        self.sent: list[tuple[str, tuple[str, ...], ProducerTuple | None]] = []

    async def append(
        self, path: str, *messages: str, producer: ProducerTuple | None = None, **_: Any
    ) -> tuple[Append, Reply]:
        self.sent.append((path, messages, producer))
        raise Unanswered


async def test_without_an_answer_a_producer_repeats_an_append_or_takes_another_number():
    contents: dict[object, set[tuple[str, ...]]] = defaultdict(set)
    for seed in range(20):
        producer = UnansweredProducer(str(seed))
        for _ in range(20):
            with pytest.raises(Unanswered):
                await producer.step()
        for path, messages, number in producer.sent:
            contents[seed, path, number].add(messages)
    assert all(len(sent) == 1 for sent in contents.values())
