"""The states that a node caches, current as of one save, and the spaces whose changes by other nodes it follows."""

from collections.abc import Iterable, Sequence
from typing import Any

from mainstem.log.commands import Key, Space, State
from mainstem.log.store.cache import StateCache


class NodeStateCache(StateCache):
    def __init__(self) -> None:
        super().__init__()
        self._spaces: dict[int, Space[Any]] = {}

    def know(self, space: Space[Any]) -> None:
        """Follow other nodes' changes in a space, because this node uses it."""
        self._spaces[space.number] = space

    def find_keys(self, spaces: Sequence[int], names: Sequence[bytes]) -> Iterable[Key]:
        """Return the keys that a save changed, without those in spaces that this node has never used."""
        known = self._spaces
        return (Key(known[space], name.decode()) for space, name in zip(spaces, names, strict=True) if space in known)

    def find_spaces(self) -> list[int]:
        """Return the numbers of the spaces whose changed states this node caches."""
        return [number for number, space in self._spaces.items() if space.cached]

    def decode(
        self, wanted: Sequence[int], spaces: Sequence[int], names: Sequence[bytes], values: Sequence[bytes | None]
    ) -> Iterable[tuple[Key, State | None]]:
        """Yield the states that came with the note of a save: one for each of its keys in the wanted spaces."""
        keys = ((space, name) for space, name in zip(spaces, names, strict=True) if space in wanted)
        for (number, name), value in zip(keys, values, strict=True):
            space = self._spaces[number]
            yield Key(space, name.decode()), None if value is None else space.decode(value)
