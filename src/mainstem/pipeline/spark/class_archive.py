"""A class data sharing archive for Spark: Java maps it instead of loading each class, and starts in half the time."""

import hashlib
import os
import subprocess
from pathlib import Path

from mainstem import limits
from mainstem.errors import JobFailed
from mainstem.pipeline.cache_dir import user_cache_dir

# What Java has to say about such a file would go to its standard output, which is the program's own.
QUIET = "-Xlog:disable"


def class_archive_path(java_home: Path, jars: Path) -> Path:
    """The path of the archive for this Java and these jars, whether it exists or not. Java refuses any other."""
    release = java_home / "release"
    key = (java_home, release.read_text("utf-8") if release.is_file() else "", jars, jars.stat().st_mtime_ns)
    name = hashlib.sha256("|".join(map(str, key)).encode()).hexdigest()[:16]
    return user_cache_dir("java", "classes") / f"{name}.jsa"


def use_options(archive: Path) -> str:
    """Java options to use the archive."""
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}'


def record_options(archive: Path) -> str:
    """Java options to write the archive at exit."""
    return f'-XX:ArchiveClassesAtExit="{archive}" {QUIET}'


def base_options(archive: Path, java_home: Path) -> str:
    """Further Java options, if this Java has no base archive of its own classes: then one is made here."""
    if any((java_home / "lib" / kind / "classes.jsa").is_file() for kind in ("server", "client")):
        return ""
    base = archive.with_suffix(".base.jsa")
    command = [str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limits.CLASS_ARCHIVE_S_MAX, check=False)
    if done.returncode != 0:
        raise JobFailed(f"Java could not write {base}: {(done.stderr or done.stdout).strip()[-300:]}")
    return f'-XX:SharedArchiveFile="{base}" '


def remove_stale(kept: Path) -> None:
    """Delete the archives of other Javas and older jars, of 190 MB each."""
    for file in kept.parent.glob("*.jsa"):
        if not file.name.startswith(f"{kept.stem}."):
            file.unlink(missing_ok=True)


def is_usable(archive: Path) -> bool:
    return os.access(archive, os.R_OK)
