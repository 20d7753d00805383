"""The files of the web console, and the page at `/`."""

import re
from importlib import resources
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem import __version__
from mainstem.metrics.catalogue import Metrics
from mainstem.server.app import create_app
from mainstem.server.endpoints.console import choose_console
from mainstem.server.settings import Settings
from tests.support.issuers import bearer, write_secret
from tests.support.plain_http import exchange, head

STATIC = Path(str(resources.files("mainstem.console"))) / "static"
FILES = sorted(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file())
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@pytest.mark.parametrize("name", ["", *FILES])
def test_every_file_is_served_with_the_policy(client, name):
    reply = client.get(f"/console/{name}")
    assert reply.status_code == 200
    assert reply.content == (STATIC / (name or "index.html")).read_bytes()
    policy = reply.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"} <= set(policy)
    assert {"form-action 'none'", "frame-ancestors 'none'", "trusted-types 'none'"} <= set(policy)
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in reply.headers
    kind = (name or "index.html").rpartition(".")[2]
    assert reply.headers["content-type"] == TYPES.get(kind, "image/svg+xml")


def test_a_browser_that_has_a_file_does_not_load_it_again(client):
    first = client.get("/console/app.js")
    again = client.get("/console/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"
    head = client.head("/console/app.js")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_files_are_compressed_once_for_all(client, encoding):
    for _ in range(2):
        reply = client.get("/console/app.js", headers={"accept-encoding": encoding})
        assert reply.headers["content-encoding"] == encoding
        assert reply.content == (STATIC / "app.js").read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "nothing.js",
        "../__init__.py",
        "..%2F__init__.py",
        "%2e%2e/%2e%2e/access.py",
        "pages/../app.js",
        "pages",
        "pages/",
        "/etc/passwd",
        "app.js/",
        "app.js%00.html",
        "%FF",
        "C:%5Cwindows",
    ],
)
def test_no_other_path_leads_to_a_file(server, path):
    reply = exchange(server.address, head(b"GET", b"/console/" + path.encode(), b"Connection: close"))
    assert (reply.status, reply.problem["code"]) == (404, "not_found")


def test_the_address_without_a_slash_leads_to_the_one_with_it(client):
    reply = client.get("/console", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (307, "console/")
    assert client.get("/console", follow_redirects=True).url.path == "/console/"


def test_the_pages_know_the_server(start_thread, connect_to):
    server = start_thread(stream_prefix="/v1/streams")
    config = connect_to(server).get("/console/config.json").json()
    assert config["version"] == __version__
    assert (config["stream_prefix"], config["authenticates"]) == ("/v1/streams", False)


# The page at /


def test_a_browser_sees_a_page_at_the_root(client):
    reply = client.get("/", headers=HTML)
    assert reply.status_code == 200
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert (reply.headers["vary"], reply.headers["cache-control"]) == ("accept", "no-store")
    assert f"version {__version__}" in reply.text
    assert "[[" not in reply.text
    head = client.head("/", headers=HTML)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_other_clients_get_what_they_always_got(client, accept):
    reply = client.get("/", headers={"accept": accept})
    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("host", ["evil'$(id)'.example", "a<script>", "x&y"])
def test_a_hostile_host_is_neither_markup_nor_a_command(tmp_path, start_thread, connect_to, host):
    write_secret(tmp_path / "secret")
    server = start_thread(jwt_secret_file=str(tmp_path / "secret"))  # with tokens, any host name is served
    reply = connect_to(server).get("/", headers={**HTML, "host": host})
    if reply.status_code == 200:
        assert "<script" not in reply.text
        assert "$(id)" not in reply.text
    else:
        assert reply.json()["code"] == "bad_request"


# Who gets it


def test_with_tokens_the_pages_need_none_and_the_api_does(tmp_path, start_thread, connect_to):
    issuer = write_secret(tmp_path / "secret")
    client = connect_to(start_thread(jwt_secret_file=str(tmp_path / "secret")))
    assert client.get("/console/").status_code == 200
    assert client.get("/console/config.json").json()["authenticates"] is True
    page = client.get("/", headers=HTML)
    assert page.status_code == 200
    assert "Authorization: Bearer $TOKEN" in page.text.replace("&quot;", '"')
    assert client.get("/").status_code == 401
    assert client.get("/v1/streams").status_code == 401
    assert client.get("/v1/streams", headers=bearer(issuer.token(streams=["**"]))).status_code == 200
    assert client.get("/consoles").status_code == 401


def test_a_server_without_the_console_has_no_pages(start_thread, connect_to):
    client = connect_to(start_thread(console="off"))
    for path in ("/console", "/console/", "/console/app.js", "/console/config.json", "/"):
        reply = client.get(path, headers=HTML, follow_redirects=False)
        assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("settings", "address", "expected"),
    [
        ({}, None, True),
        ({"host": "localhost"}, None, True),
        ({"host": "0.0.0.0", "insecure": True}, None, False),
        ({"host": "0.0.0.0", "insecure": True, "console": "on"}, None, True),
        ({"host": "0.0.0.0", "jwks": "keys.json"}, None, True),
        ({"host": "0.0.0.0", "jwks": "keys.json", "console": "off"}, None, False),
        ({"host": "0.0.0.0", "unix_socket": "/run/mainstem.sock"}, None, True),
        ({"fd": 3, "insecure": True}, "10.0.0.1", False),
        ({"fd": 3}, "127.0.0.1", True),
        ({"console": "off"}, None, False),
    ],
)
def test_the_console_is_on_where_not_everybody_could_use_it(settings, address, expected):
    assert choose_console(Settings(**settings), address) is expected


@pytest.mark.parametrize("console", [None, "on"])
async def test_an_embedded_app_has_a_console_only_on_demand(console):
    mainstem = create_app(store="memory", console=console)
    host = Starlette(routes=[Mount("/log", mainstem)])
    async with (
        mainstem.lifespan(),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(host), base_url="http://host", follow_redirects=True
        ) as client,
    ):
        reply = await client.get("/log/console")
        if console is None:
            assert reply.status_code == 404
            return
        assert (reply.status_code, reply.url.path) == (200, "/log/console/")
        assert (await client.get("/log/console/app.js")).status_code == 200
        assert "http://host/log/v1/stream/hello" in (await client.get("/log/", headers=HTML)).text


# The files themselves


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".html")])
def test_a_page_has_no_inline_code_or_styles_and_names_only_files_that_exist(name):
    text = (STATIC / name).read_text()
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", text)
    for link in re.findall(r'(?:src|href)="([^"#\[]+)"', text):
        if not link.endswith((".json", "/")):
            assert (STATIC / link.removeprefix("console/")).is_file(), link


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_a_module_imports_only_files_that_exist_and_writes_no_markup(name):
    text = (STATIC / name).read_text()
    for target in re.findall(r'(?:^import .* from |import\()"([^"]+)"', text, re.MULTILINE):
        assert target.startswith("."), target
        assert (STATIC / name).parent.joinpath(target).resolve().is_file(), target
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    # The name of SVG, and a host in an example: nothing is ever loaded from them.
    assert set(re.findall(r"https?://([\w.]+)", text)) <= {"www.w3.org", "example.com"}


def test_the_overview_names_only_metrics_that_exist():
    text = (STATIC / "pages" / "overview.js").read_text()
    known = {family.name for family in Metrics().families}
    named = set(re.findall(r'"((?:mainstem|process)_[a-z_]+)"', text))
    assert len(named) > 15
    assert named <= known
