"""SQLite's errors in plain words, without the text of the library."""

import errno
from typing import Final

import apsw

REASONS: Final[dict[type[Exception], str]] = {
    apsw.NotADBError: "the file is not a SQLite database",
    apsw.CorruptError: "the database file is corrupt",
    apsw.FullError: "the disk is full",
    apsw.IOError: "the disk reported an input/output error",
    apsw.CantOpenError: "the file cannot be opened",
    apsw.PermissionsError: "this user may not access the file",
    apsw.ReadOnlyError: "the file is read-only for this user",
    apsw.BusyError: "another process has locked the database",
    apsw.LockedError: "another connection has locked the database",
    apsw.NoMemError: "there is not enough memory",
    UnicodeDecodeError: "a text in it is not valid UTF-8",
}


WAY_OUT: Final = "run `mainstem check` for details, then `mainstem repair` or `mainstem restore`"


def is_damage(error: Exception) -> bool:
    """Return whether the content of the file is wrong."""
    if isinstance(error, apsw.IOError):
        # The checksum of a page is wrong. Only errors that SQLite has raised have this attribute.
        return getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA
    return isinstance(error, apsw.CorruptError | apsw.NotADBError)


def explain(error: Exception) -> str:
    """Return why SQLite failed; the kind of error if it is a rare one."""
    if isinstance(error, apsw.IOError) and is_damage(error):
        return "the checksum of a page is wrong"
    for kind, reason in REASONS.items():
        if isinstance(error, kind):
            return reason
    return f"SQLite failed with {type(error).__name__}"


def explain_directory(error: OSError) -> str:
    """Return why a data directory cannot be used, and the way out."""
    if isinstance(error, FileExistsError):
        reason = "it is a file"
    elif isinstance(error, NotADirectoryError):
        reason = "a part of its path is a file"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason = "this user may not write to it"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full"
    else:
        reason = error.strerror or "it cannot be opened"
    return f"{reason}; choose another one with --data"


def explain_unusable(error: Exception) -> str:
    """Return why a store cannot be opened and, if its file is damaged, how to go on."""
    if isinstance(error, apsw.NotADBError):
        return f"{explain(error)}; choose another directory with --data, or restore a backup with `mainstem restore`"
    if is_damage(error):
        return f"{explain(error)}; {WAY_OUT}"
    return explain(error)
