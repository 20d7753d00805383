"""The states that a node remembers, right as of one save, and the spaces whose changes by other nodes matter to it."""

from collections.abc import Iterable, Sequence
from typing import Any

from mainstem.log.commands import Key, Space, State
from mainstem.log.store.cache import StateCache


class NodeStateCache(StateCache):
    def __init__(self) -> None:
        super().__init__()
        self._spaces: dict[int, Space[Any]] = {}

    def know(self, space: Space[Any]) -> None:
        """This node uses a space, so it wants to hear of changes there."""
        self._spaces[space.number] = space

    def find_keys(self, spaces: Sequence[int], names: Sequence[bytes]) -> Iterable[Key]:
        """Keys out of the notes of a save. In spaces that nobody here has used, nobody here can miss anything."""
        known = self._spaces
        return (Key(known[space], name.decode()) for space, name in zip(spaces, names, strict=True) if space in known)

    def find_spaces(self) -> list[int]:
        """The spaces whose changed states are worth knowing."""
        return [number for number, space in self._spaces.items() if space.cached]

    def decode(
        self, wanted: Sequence[int], spaces: Sequence[int], names: Sequence[bytes], values: Sequence[bytes | None]
    ) -> Iterable[tuple[Key, State | None]]:
        """The states that came with the notes of a save: one for each of its keys in the wanted spaces."""
        keys = ((space, name) for space, name in zip(spaces, names, strict=True) if space in wanted)
        for (number, name), value in zip(keys, values, strict=True):
            space = self._spaces[number]
            yield Key(space, name.decode()), None if value is None else space.decode(value)
