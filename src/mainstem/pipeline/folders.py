"""Where the pipeline keeps what is its own: the Java shim, Spark's scratch files, staged rows of batch writes."""

import os
from pathlib import Path


def cache_folder(*parts: str) -> Path:
    """A folder under `$XDG_CACHE_HOME/mainstem` (or `~/.cache/mainstem`), made if it is not there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "mainstem", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
