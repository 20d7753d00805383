"""The user's cache directory: the Java and Python shims, Spark's scratch files, and staged rows of batch writes."""

import os
from pathlib import Path


def user_cache_dir(*parts: str) -> Path:
    """Return a directory under `$XDG_CACHE_HOME/mainstem` (or `~/.cache/mainstem`), created if it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base, "mainstem", *parts)
    directory.mkdir(parents=True, exist_ok=True)
    return directory
