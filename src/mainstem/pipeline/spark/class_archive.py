"""A file of Spark's classes that Java maps instead of loading each of them: Spark starts in half the time with it."""

import hashlib
import os
import subprocess
from pathlib import Path

from mainstem import limits
from mainstem.errors import JobFailed
from mainstem.pipeline.cache_dir import user_cache_dir

# What Java has to say about such a file would go to its standard output, which is the program's own.
QUIET = "-Xlog:disable"


def archive_of(java_home: Path, jars: Path) -> Path:
    """The file for this Java and these jars, whether it is there or not. Java checks it, and takes no other."""
    release = java_home / "release"
    facts = (java_home, release.read_text("utf-8") if release.is_file() else "", jars, jars.stat().st_mtime_ns)
    name = hashlib.sha256("|".join(map(str, facts)).encode()).hexdigest()[:16]
    return user_cache_dir("java", "classes") / f"{name}.jsa"


def reading(archive: Path) -> str:
    """Options for a Java that uses the file."""
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}'


def recording(archive: Path) -> str:
    """Options for a Java that writes the file when it ends."""
    return f'-XX:ArchiveClassesAtExit="{archive}" {QUIET}'


def give_base(archive: Path, java_home: Path) -> str:
    """Options besides those, for a Java that came without an archive of its own classes for ours to build on."""
    if any((java_home / "lib" / kind / "classes.jsa").is_file() for kind in ("server", "client")):
        return ""
    base = archive.with_suffix(".base.jsa")
    command = [str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limits.CLASS_ARCHIVE_S_MAX, check=False)
    if done.returncode != 0:
        raise JobFailed(f"Java could not write {base}: {(done.stderr or done.stdout).strip()[-300:]}")
    return f'-XX:SharedArchiveFile="{base}" '


def remove_others(kept: Path) -> None:
    """Of other Javas and older jars: each has 190 MB."""
    for file in kept.parent.glob("*.jsa"):
        if not file.name.startswith(f"{kept.stem}."):
            file.unlink(missing_ok=True)


def is_there(archive: Path) -> bool:
    return os.access(archive, os.R_OK)
