"""The pages are true: marked blocks run, links lead somewhere, and every page can be reached."""

from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, BlockFailed, Session, find_anchors, find_blocks, find_links, find_pages, matches

PAGES = find_pages()
INDEX = ROOT / "docs" / "README.md"


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def run_page(tmp_path, start_server):
    """Run the marked blocks of a page, with a server if a block uses one."""
    sessions = []

    def run(*texts):
        blocks = [block for text in texts for block in find_blocks(text)]
        spoken_to = any("4437" in block.text for block in blocks)
        server = start_server(data=tmp_path / "server") if spoken_to else None
        (tmp_path / "work").mkdir()
        sessions.append(Session(tmp_path / "work", server.address[1] if server else None))
        for block in blocks:
            sessions[-1].run(block)

    yield run
    for session in sessions:
        session.close()


def with_blocks():
    """Return the pages with marked blocks; those that wait for Spark or for time to pass are slow."""
    for page in PAGES:
        blocks = find_blocks(page.read_text())
        waits = any("mainstem.pipeline" in block.text or "sleep" in block.text for block in blocks)
        if blocks:
            yield pytest.param(page, marks=[pytest.mark.slow] if waits else [])


@pytest.mark.parametrize("page", list(with_blocks()), ids=name)
def test_the_marked_blocks_of_a_page_run_as_the_page_says(run_page, page):
    run_page(page.read_text())


def test_the_guide_to_the_python_client_works_after_the_tour(run_page):
    """A reader follows both on one server: they must not use the same streams."""
    run_page((ROOT / "README.md").read_text(), (ROOT / "docs" / "guides" / "python-client.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page):
    assert not [link for link in find_links(page.read_text()) if not leads_somewhere(page, link)]


def leads_somewhere(page, link):
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or target.suffix != ".md" or anchor in find_anchors(target.read_text())


def test_every_page_is_linked_from_the_index():
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in find_links(INDEX.read_text())}
    pages = {page for page in PAGES if page.is_relative_to(INDEX.parent)} - {INDEX}
    assert not sorted(name(page) for page in pages - linked)


# The convention itself

PAGE = """
# A page

<!-- run -->
```bash
greeting=hello
echo "$greeting" > file.txt
url=http://127.0.0.1:4437/v1/stream/s
curl -s -X PUT $url -H 'content-type: text/plain' -d @file.txt -o /dev/null -w '%{http_code}\\n'
```

```output
201
```

Words in between.

<!-- run -->
```python
import os
from urllib.request import urlopen

text = urlopen("http://127.0.0.1:4437/v1/stream/s").read().decode()
print(text, os.listdir())
```
```output
hello ['file.txt']
```

```bash
exit 1  # not marked
```

<!-- run -->
```console
$ echo "$greeting" \\
    "and more"
hello ... more
$ echo 127.0.0.1:4437
127.0.0.1:4437
```

<!-- run -->
```python
assert text == "hello"
```
"""


def test_marked_blocks_share_one_shell_one_interpreter_one_directory_and_a_server(run_page):
    assert [block.language for block in find_blocks(PAGE)] == ["bash", "python", "console", "python"]
    run_page(PAGE)


@pytest.mark.parametrize(
    "block",
    [
        "```bash\nfalse\necho on\n```",
        "```bash\nfalse | cat\n```",
        "```bash\necho one\n```\n```output\ntwo\n```",
        "```python\nraise SystemExit(1)\n```",
        "```python\nprint(1)\n```\n\n```output\n2\n```",
        "```console\n$ echo one\ntwo\n```",
        "```console\n$ echo one\n$ echo two\ntwo\n```",
        "```json\n{}\n```",
    ],
)
def test_a_block_that_does_not_do_what_the_page_says_fails(run_page, block):
    with pytest.raises(BlockFailed):
        run_page(f"<!-- run -->\n{block}\n")


def test_an_output_may_contain_wildcards():
    assert matches("a ... c\n", "a b\n\nc".replace("\n\n", " ") + "  \n")
    assert matches("offset: ...\ndone", "offset: 12\nmore\ndone\n")
    assert not matches("a...c", "a b d")
    assert not matches("", "something")


def test_links_in_code_are_ignored():
    text = '[a](b.md) ![i](i.png) `[c](d.md)` [web](https://x.org) [e](f.md#g "title")\n```\n[h](i.md)\n```\n'
    assert find_links(text) == ["b.md", "i.png", "f.md#g"]


def test_headings_have_the_anchors_that_github_gives_them():
    assert find_anchors("# A b, `c`!\n## The [d](e) of f_g\n```\n# no\n```\n") == {"a-b-c", "the-d-of-f_g"}
