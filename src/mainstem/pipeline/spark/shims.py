"""Small shell scripts in the user's cache that Spark starts instead of Java and Python."""

import os
import stat
import tempfile
from pathlib import Path


def install_shim(path: Path, text: str) -> None:
    """Write the script unless it exists. It is replaced atomically, since another process may be starting it."""
    if path.exists() and path.read_text("utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.chmod(file.name, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.replace(file.name, path)
