"""A bounded cache of durable states."""

from collections.abc import Mapping

from mainstem import limits
from mainstem.log.commands import Key, State


class StateCache(dict[Key, State | None]):
    """Durable states by key; None stands for a state that is known not to exist. Add states with `remember`."""

    def remember(self, states: Mapping[Key, State | None]) -> None:
        for key, state in states.items():
            if key.space.cached:
                self.pop(key, None)  # so that the state written last is evicted last
                self[key] = state
        if len(self) > limits.STATES_CACHED_MAX:
            for old in list(self)[: limits.STATES_CACHED_MAX // 8]:
                del self[old]
