from mainstem.sync.pages import PageReader
from mainstem.sync.protocol.cycles import Cycle
from tests.support.pruning import pruned_store


async def test_a_page_reports_what_was_pruned_while_it_was_read():
    async with pruned_store() as store:
        reader, cycle = PageReader(store.log), Cycle(("p",), 0, store.head, 0)
        page = await reader.read(cycle, 0, 10)
        assert ([record.committed_id for record in page.records], page.truncated) == ([1], [])
        store.pruned = True
        page = await reader.read(cycle, 0, 10)
        assert (page.records, page.truncated) == ([], ["p"])
