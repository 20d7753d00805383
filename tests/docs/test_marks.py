"""Every code block of the documentation is run by the tests, or says that it is a fragment."""

import pytest

from tests.docs.pages import FENCE, FRAGMENT, MARK, ROOT, find_pages

PLAIN = {"output", "text"}
"""Languages of blocks that hold no code."""


def name(page):
    return str(page.relative_to(ROOT))


def find_unmarked(text):
    """The lines at which blocks begin that have no mark and need one."""
    return [
        text[: fence.start()].count("\n") + 1
        for fence in FENCE.finditer(text)
        if fence["language"] not in PLAIN and not text[: fence.start()].rstrip().endswith((MARK, FRAGMENT))
    ]


# Decision records tell what was tried at their time.
PAGES = [page for page in find_pages() if "adr" not in page.parts]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_is_run_or_marked_as_a_fragment(page):
    assert find_unmarked(page.read_text()) == []


def test_a_block_needs_a_mark_unless_it_holds_no_code():
    marked = f"{MARK}\n```bash\ntrue\n```\n\n```output\n```\n\n{FRAGMENT}\n```json\n{{}}\n```\n```text\nx\n```\n"
    assert find_unmarked(marked) == []
    assert find_unmarked("# A page\n\n```python\npass\n```\n\n```\nplain\n```\n") == [3, 7]
    assert find_unmarked(f"{FRAGMENT}\nwords\n```sh\nls\n```\n") == [3]
