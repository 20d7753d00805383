"""Finds the store that a command works on, from the same settings as `mainstem serve`."""

import os
from pathlib import Path

from mainstem.cli.failures import ExitCode, Failure

POSTGRES = ("postgresql://", "postgres://")


def is_postgres(store: str | None) -> bool:
    return store is not None and store.startswith(POSTGRES)


def find_store(data: str | None, store: str | None, config: str | None) -> Path | str:
    """Return the file of an embedded store, or the URL of a PostgreSQL store."""
    from mainstem.server.settings import load_settings

    wanted = store or os.environ.get("MAINSTEM_STORE")
    if wanted is not None and is_postgres(wanted):
        return wanted
    settings = load_settings({"data": data, "store": store}, config=config)
    if is_postgres(settings.store):
        return settings.store
    if settings.store != "sqlite":
        raise Failure(
            "a store in memory exists only inside its server: choose sqlite or postgresql:// with --store",
            ExitCode.USAGE,
        )
    return Path(settings.data) / "mainstem.db"


def require_file(path: Path) -> Path:
    if not path.is_file():
        raise Failure(f"there is no store at {path}: name its directory with --data", ExitCode.LOCAL)
    return path
