"""The documentation site builds without a warning, its links lead somewhere, and it needs no other host."""

import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]  # so that one worker builds it once


class Page(HTMLParser):
    """The targets of a page's links, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def build(directory: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of what the site is made from, so that a build changes nothing in the repository."""
    directory = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "zensical.toml", directory)
    shutil.copytree(ROOT / "docs", directory / "docs")
    shutil.copytree(ROOT / "src", directory / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return directory


@pytest.fixture(scope="module")
def site(project):
    built = build(project)
    assert built.returncode == 0, built.stdout + built.stderr
    return project / "site"


def broken_links(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or path.name == "404.html":  # that one is served at any depth
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = found / "index.html" if found.is_dir() else found
            if not found.is_file():
                yield f"{path.relative_to(site)}: {target}"
            elif parts.fragment and found in pages and unquote(parts.fragment) not in pages[found].anchors:
                yield f"{path.relative_to(site)}: {target} (no such anchor)"


def test_every_link_of_the_site_leads_somewhere(site):
    assert not list(broken_links(site))


def test_no_page_of_the_site_asks_another_host_for_anything(site):
    """Links may lead to other hosts; scripts, styles, fonts and pictures may not come from there."""
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert 'src="http' not in text, path
        assert 'rel="stylesheet" href="http' not in text, path


def test_the_site_has_search_and_the_api_reference(site):
    assert (site / "search.json").stat().st_size > 100_000
    anchors = Page((site / "reference" / "python-api" / "index.html").read_text()).anchors
    assert {"mainstem.client.Streams", "mainstem.client.AsyncStreams", "mainstem.client.OfflineClient"} <= anchors
    assert {"mainstem.server.create_app", "mainstem.pipeline.session"} <= anchors


def test_a_link_to_nowhere_ends_the_build(project, site):
    page = project / "docs" / "start" / "demo.md"
    text = page.read_text()
    page.write_text(text + "\nSee [nothing](first-steps.md#no-such-heading).\n")
    try:
        assert build(project).returncode != 0
    finally:
        page.write_text(text)
