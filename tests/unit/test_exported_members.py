"""The public names of `mainstem` itself, and what importing them costs."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import mainstem

HOMES = {
    "AsyncIdempotentProducer": "mainstem.client",
    "AsyncStreams": "mainstem.client",
    "ClientError": "mainstem.client",
    "IdempotentProducer": "mainstem.client",
    "MainstemError": "mainstem.errors",
    "OfflineClient": "mainstem.client.offline",
    "Settings": "mainstem.server",
    "Streams": "mainstem.client",
    "create_app": "mainstem.server",
    "sign_url": "mainstem.signed_urls",
}


def test_these_are_the_public_names():
    assert sorted(mainstem.__all__) == sorted([*HOMES, "__version__"])
    assert set(dir(mainstem)) >= {*HOMES, "__version__"}


@pytest.mark.parametrize("name", HOMES)
def test_a_name_is_the_one_of_its_own_package(name):
    assert getattr(mainstem, name) is getattr(import_module(HOMES[name]), name)
    assert getattr(mainstem, name).__name__ == name


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'mainstem' has no attribute 'Producer'"):
        mainstem.Producer  # noqa: B018


def test_the_version_is_that_of_the_installed_package():
    assert mainstem.__version__ == version("mainstem")


def imported_after(statement: str) -> set[str]:
    """Run a statement in a new interpreter, and return the names of all modules that it has imported."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_mainstem_imports_none_of_its_parts():
    imported = imported_after("import mainstem")
    assert {name for name in imported if name.startswith("mainstem.")} == set()
    assert not imported & {"asyncio", "httpx2", "httpx", "msgspec", "uvloop", "apsw", "websockets"}


def test_importing_a_client_does_not_import_the_server():
    imported = imported_after("from mainstem import AsyncStreams, OfflineClient, Streams")
    assert "mainstem.client.blocking.streams" in imported
    assert "mainstem.server" not in imported
    assert "mainstem.log" not in imported


def test_signing_a_url_does_not_import_the_server():
    imported = imported_after("from mainstem import sign_url")
    assert "mainstem.signed_urls" in imported
    assert not imported & {"mainstem.server", "mainstem.log", "mainstem.client", "uvloop", "apsw"}


def test_a_star_import_brings_every_name():
    names = imported_after("from mainstem import *\nassert Streams and create_app and __version__")
    assert "mainstem.server.app" in names
