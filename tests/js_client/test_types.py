"""The type declarations of the JavaScript client: the real TypeScript compiler accepts what is right, and only that."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.js_sources import find_changes, find_codes
from tests.support.node_packages import install

HERE = Path(__file__).parent
JS = HERE.parents[1] / "js"
CONSUMER = (HERE / "consumer.ts").read_text()
STRICT = {
    "strict": True,
    "noEmit": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "skipLibCheck": False,
    "target": "es2022",
    "types": [],
    "lib": ["esnext", "dom", "dom.iterable"],
}
NODENEXT = {"module": "nodenext", "moduleResolution": "nodenext"}
BUNDLER = {"module": "esnext", "moduleResolution": "bundler"}


@pytest.fixture(scope="module")
def node() -> list[str]:
    """The command that runs node, after the compiler is installed."""
    return install(JS)


@pytest.fixture
def compile_program(node, tmp_path):
    """Compile a program that has the client as a package, and return what the compiler reports."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "mainstem-client").symlink_to(JS)
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def compile_(source: str, **options: Any) -> str:
        (tmp_path / "program.ts").write_text(source)
        config = {"compilerOptions": STRICT | options, "files": ["program.ts"]}
        (tmp_path / "tsconfig.json").write_text(json.dumps(config))
        command = [*node, str(JS / "node_modules" / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout

    return compile_


@pytest.mark.parametrize("resolution", [NODENEXT, BUNDLER], ids=["nodenext", "bundler"])
def test_a_strict_program_that_uses_every_member_compiles(compile_program, resolution):
    assert compile_program(CONSUMER, **resolution) == ""


def test_the_declarations_need_neither_a_browser_nor_a_new_library(compile_program):
    program = """
        import { OfflineClient } from "mainstem-client";
        import { fileStore } from "mainstem-client/file";
        const client = new OfflineClient("https://host", { clientId: "ada", store: fileStore("ada.db") });
        export const stop = client.onChange(({ type }) => type);
    """
    assert compile_program(program, **NODENEXT, lib=["es2022"]) == ""


def test_every_wrong_use_is_an_error(compile_program):
    """Without the comments that expect them, each of them is one."""
    expected = CONSUMER.count("@ts-expect-error")
    assert expected > 10
    reported = compile_program(CONSUMER.replace("@ts-expect-error", ""), **NODENEXT)
    assert len(re.findall(r"^program\.ts\(\d+,\d+\): error", reported, re.MULTILINE)) == expected


@pytest.fixture(scope="module")
def members(node) -> dict[str, Any]:
    command = [*node, str(HERE / "members.mjs"), str(JS)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return found


def test_the_declarations_have_every_public_member_and_no_other(members):
    assert members["declared"] == members["runtime"]
    assert {"submit", "watch", "connectNow"} <= set(members["runtime"]["mainstem"]["OfflineClient"])


def test_the_consumer_uses_every_member(members):
    names = {name for module in members["declared"].values() for names in module.values() for name in names}
    assert not [name for name in names if not re.search(rf"\b{name}\b", CONSUMER)]


def test_the_union_of_codes_is_what_the_source_uses(members):
    assert members["codes"] == sorted(find_codes())


def test_the_union_of_changes_is_what_the_source_uses(members):
    assert set(members["changes"]) == find_changes()


def test_the_package_contains_the_declarations():
    package = json.loads((JS / "package.json").read_text())
    types = [entry["types"] for entry in package["exports"].values()]
    assert types
    assert all((JS / path).is_file() and Path(path).parts[0] in package["files"] for path in types)
