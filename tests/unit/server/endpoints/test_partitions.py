import pytest

from mainstem.errors import OffsetGone
from mainstem.server.endpoints.partitions import PartitionSource
from mainstem.streams.rules.offsets import Offset
from tests.support.pruning import pruned_store


async def test_a_page_whose_events_are_pruned_while_it_is_read_is_refused():
    async with pruned_store() as store:
        source = PartitionSource(store.log, "p")
        await source.refresh()
        assert (await source.read(Offset(0, 0), 1_000)).end == Offset(0, 1)
        store.pruned = True
        with pytest.raises(OffsetGone, match="up to 0000000000000000_0000000000000001"):
            await source.read(Offset(0, 0), 1_000)


async def test_a_floor_that_was_known_before_does_not_end_a_live_read():
    async with pruned_store() as store:
        source = PartitionSource(store.log, "p")
        store.pruned = True
        await store.read_tagged(["p"], 0, 1, 1, 1)
        await source.refresh()
        assert (await source.read(Offset(0, 0), 1_000)).end == Offset(0, 0)
