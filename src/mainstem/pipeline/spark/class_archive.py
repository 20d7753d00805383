"""A class data sharing archive for Spark. Java maps it instead of loading each class, and starts in half the time."""

import hashlib
import os
import subprocess
from pathlib import Path

from mainstem import limits
from mainstem.errors import JobFailed
from mainstem.pipeline.cache_dir import user_cache_dir

# Java prints its messages about such a file to standard output, which belongs to the program.
QUIET = "-Xlog:disable"


def class_archive_path(java_home: Path, jars: Path) -> Path:
    """Return the path of the archive for this Java and these jars, whether it exists or not. Java refuses any other."""
    release = java_home / "release"
    version = release.read_text("utf-8") if release.is_file() else ""
    key = (java_home, version, jars, jars.stat().st_mtime_ns, "without incubator modules")
    name = hashlib.sha256("|".join(map(str, key)).encode()).hexdigest()[:16]
    return user_cache_dir("java", "classes") / f"{name}.jsa"


def use_options(archive: Path) -> str:
    """Return the Java options that use the archive."""
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}'


def record_options(archive: Path) -> str:
    """Return the Java options that write the archive at exit."""
    return f'-XX:ArchiveClassesAtExit="{archive}" {QUIET}'


def base_options(archive: Path, java_home: Path) -> str:
    """Return further options for a Java without a base archive of its own classes, and write such an archive."""
    if any((java_home / "lib" / kind / "classes.jsa").is_file() for kind in ("server", "client")):
        return ""
    base = archive.with_suffix(".base.jsa")
    command = [str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limits.CLASS_ARCHIVE_S_MAX, check=False)
    if done.returncode != 0:
        raise JobFailed(f"Java could not write {base}, it printed: {(done.stderr or done.stdout).strip()[-300:]}")
    return f'-XX:SharedArchiveFile="{base}" '


def remove_stale(kept: Path) -> None:
    """Delete the archives of other Java versions and older jars, which take 190 MB each."""
    for file in kept.parent.glob("*.jsa"):
        if not file.name.startswith(f"{kept.stem}."):
            file.unlink(missing_ok=True)


def is_usable(archive: Path) -> bool:
    return os.access(archive, os.R_OK)
