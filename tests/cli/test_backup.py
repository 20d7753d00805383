"""Copies of a store: taken under load, verified, restored; and what prevents that."""

import json
import os
import shutil
import stat
import subprocess
import threading

import apsw
import httpx2
import pytest

from mainstem.checks.rules import check_store
from mainstem.errors import BackupFailed, BackupTargetFull
from mainstem.log.store.sqlite.backup import back_up
from mainstem.log.store.sqlite.journal import read_journal
from mainstem.log.store.sqlite.snapshot import open_snapshot
from mainstem.testing.server import ServerProcess
from tests.support.command_line import COMMAND
from tests.support.requirements import miss
from tests.support.waits import eventually


@pytest.fixture
def backup(shell, store):
    shell.ok("backup", "good.db", "--data", str(store.parent))
    return shell.directory / "good.db"


def held(path):
    with open_snapshot(path) as snapshot:
        return snapshot.measure()


def test_a_backup_of_a_busy_server_is_consistent_and_contains_everything_acknowledged_before_it(shell, start_server):
    server = start_server()
    url = f"{server.url}/v1/stream/busy"
    with httpx2.Client(trust_env=False) as client:
        client.put(url, headers={"content-type": "text/plain"}).raise_for_status()
        for number in range(50):
            client.post(url, headers={"content-type": "text/plain"}, content=b"%06d\n" % number).raise_for_status()
    stop = threading.Event()
    written: list[bytes] = []

    def write():
        with httpx2.Client(trust_env=False) as client:
            while not stop.is_set():
                line = b"%06d\n" % (50 + len(written))
                client.post(url, headers={"content-type": "text/plain"}, content=line).raise_for_status()
                written.append(line)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: written)
        done = json.loads(shell.ok("backup", "copy.db", "--data", str(server.data), "--json"))
    finally:
        stop.set()
        writer.join()
    assert written, "the server was not busy during the backup"
    assert done["file"] == "copy.db"
    assert stat.S_IMODE(os.stat(shell.directory / "copy.db").st_mode) == 0o600
    assert sorted(os.listdir(shell.directory)) == ["copy.db", "data"]  # no journal, no temporary file
    shell.ok("restore", "copy.db", "--data", "restored")
    restored = start_server(data=shell.directory / "restored")
    lines = httpx2.get(f"{restored.url}/v1/stream/busy", trust_env=False).content.splitlines(keepends=True)
    assert len(lines) >= 50
    assert lines == [b"%06d\n" % number for number in range(len(lines))]


def test_a_large_store_whose_pages_are_in_the_write_ahead_log_is_backed_up(shell, start_server):
    """Larger than the cache of the copy, which then writes pages before the header that announces checksums."""
    server = start_server()
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for number in range(200):
            client.put(
                f"/v1/stream/{number}", headers={"content-type": "text/plain"}, content=os.urandom(20_000).hex()
            ).raise_for_status()
        shell.ok("backup", "copy.db", "--data", str(server.data))
        client.post("/v1/stream/0", headers={"content-type": "text/plain"}, content=b"more").raise_for_status()
        shell.ok("backup", "copy.db", "--data", str(server.data), "--force")
    assert "no faults" in shell.ok("check", "copy.db")


def test_a_backup_has_the_same_content_as_its_source(shell, store, backup):
    assert held(backup) == held(store)
    assert shell.ok("check", "good.db").startswith("good.db: no faults (")
    done = json.loads(shell.ok("check", "good.db", "--json"))
    assert (done["ok"], done["faults"], done["head"]) == (True, [], held(store).head)


def test_a_backup_replaces_a_file_only_with_force(shell, store, backup):
    (shell.directory / "good.db").write_text("precious")
    shell("backup", "good.db", "--data", str(store.parent)).fails(1, "good.db already exists", "--force")
    assert backup.read_text() == "precious"
    shell.ok("backup", "good.db", "--data", str(store.parent), "--force")
    assert held(backup) == held(store)
    shell("backup", str(store), "--data", str(store.parent), "--force").fails(1, "the store itself")


def test_a_store_with_violations_is_not_backed_up(shell, store):
    db = apsw.Connection(str(store))
    db.execute("DELETE FROM tags WHERE tag = 'b'")
    db.close()
    done = shell("backup", "bad.db", "--data", str(store.parent))
    done.fails(1, f"{store} has faults", "has no tag for it", "mainstem check")
    assert not (shell.directory / "bad.db").exists()
    done = shell("check", "--data", str(store.parent))
    assert (done.code, done.errors) == (1, "")
    assert "tag: event" in done.text
    assert "faults" in done.text.splitlines()[-1]
    found = json.loads(shell("check", "--data", str(store.parent), "--json").text)
    assert (found["ok"], found["faults"][0]["rule"]) == (False, "tag")


def test_a_damaged_backup_is_not_restored(shell, backup):
    with backup.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(os.urandom(4096))
    shell("restore", "good.db", "--data", "new").fails(1, "good.db has faults")
    assert not (shell.directory / "new" / "mainstem.db").exists()
    (shell.directory / "text").write_text("no database at all, but long enough to look like something" * 10)
    shell("restore", "text", "--data", "new").fails(7, "text", "is not a SQLite database")
    shell("restore", "nowhere", "--data", "new").fails(7, "nowhere")
    shell("check", "text").fails(7, "text")


def make_older(path):
    """Turn it into the second version of the schema: an index over the records, and no places."""
    db = apsw.Connection(str(path))
    db.execute("DROP VIEW places; DROP TABLE old_places; DROP TABLE new_places; DROP TABLE journal")
    db.execute('CREATE INDEX records_by_topic ON records (topic, "end") WHERE kind = 2')
    db.pragma("user_version", 2)
    db.close()


def test_a_backup_of_an_older_version_is_migrated(shell, backup):
    before = held(backup)
    make_older(backup)
    shell("check", "good.db").fails(7, "older version", "start the server")
    shell.ok("restore", "good.db", "--data", "new")
    assert held(shell.directory / "new" / "mainstem.db") == before
    assert "no faults" in shell.ok("check", "--data", "new")


def test_a_damaged_backup_of_an_older_version_is_not_restored(shell, backup):
    make_older(backup)
    db = apsw.Connection(str(backup))
    db.execute("DELETE FROM tags WHERE tag = 'b'")
    db.close()
    shell("restore", "good.db", "--data", "new").fails(1, "good.db has faults", "has no tag for it")
    assert not (shell.directory / "new" / "mainstem.db").exists()


def test_a_data_directory_is_overwritten_only_with_force(shell, store, backup):
    other = shell.directory / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    shell("restore", "good.db", "--data", "other").fails(1, "not empty", "notes.txt", "--force")
    shell.ok("restore", "good.db", "--data", "other", "--force")
    assert (other / "notes.txt").read_text() == "mine"
    assert held(other / "mainstem.db") == held(store)


def test_a_running_server_blocks_a_restore_but_not_a_check(shell, backup, start_server):
    server = start_server()
    shell("restore", "good.db", "--data", str(server.data), "--force").fails(7, str(server.pid), "in use")
    assert "no faults" in shell.ok("check", "--data", str(server.data))
    httpx2.put(f"{server.url}/v1/stream/x", trust_env=False).raise_for_status()


def test_the_journal_of_a_killed_server_is_not_applied_to_the_restored_store(shell, store, backup, start_server):
    server = start_server()
    for number in range(20):
        httpx2.put(f"{server.url}/v1/stream/other-{number}", trust_env=False).raise_for_status()
    server.kill()
    assert read_journal(server.data)
    shell.ok("restore", "good.db", "--data", str(server.data), "--force")
    assert held(server.data / "mainstem.db") == held(store)
    server.start()
    listed = httpx2.get(f"{server.url}/v1/streams", trust_env=False).json()["streams"]
    assert "plain" in {stream["path"] for stream in listed}
    assert not [stream for stream in listed if stream["path"].startswith("other")]


def test_a_backup_holds_what_is_only_in_the_journal(shell, start_server):
    server = start_server()
    for number in range(20):
        httpx2.put(f"{server.url}/v1/stream/{number}", content=b"data", trust_env=False).raise_for_status()
        copy = f"{number}.db"
        if number % 5 == 0:
            shell.ok("backup", copy, "--data", str(server.data))
            with open_snapshot(shell.directory / copy) as snapshot:
                assert snapshot.measure().head == 2 * number + 2
    server.kill()
    assert read_journal(server.data)
    shell.ok("backup", "killed.db", "--data", str(server.data))
    shell.ok("restore", "killed.db", "--data", "new")
    with open_snapshot(shell.directory / "new" / "mainstem.db") as snapshot:
        assert snapshot.measure().head == 40
        assert not snapshot.find_unfolded()
    assert "no faults" in shell.ok("check", "--data", "new")


def test_a_missing_store_is_named(shell):
    shell("check", "--data", "nowhere").fails(7, "nowhere/mainstem.db", "--data")
    shell("backup", "x.db", "--data", "nowhere").fails(7, "nowhere/mainstem.db")
    shell("check", "--store", "memory").fails(2, "memory")
    shell("backup", "x.db", "--store", "postgresql://u@h/d").fails(2, "pg_dump")
    shell("restore", "x.db", "--store", "postgresql://u@h/d").fails(2, "pg_restore")
    shell("backup", "/nowhere/x.db", "--data", "nowhere").fails(7, "nowhere")


# Disks that fail


@pytest.mark.parametrize("writes", [0, 1, 5])
def test_a_disk_that_fills_up_leaves_nothing_behind(store, tmp_path, disk, writes):
    disk.fill_up(after_writes=writes)
    with pytest.raises(BackupTargetFull, match="free some space"):
        back_up(store, tmp_path / "copy.db", check_store, vfs=disk.name)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("copy")]


def test_a_copy_that_cannot_be_written_is_reported_with_the_reason(store, tmp_path):
    with pytest.raises(BackupFailed, match="No such file"):
        back_up(store, tmp_path / "nowhere" / "copy.db", check_store)


NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    script = "mount -t tmpfs -o size=16k none /mnt"
    return subprocess.run([*NAMESPACE, "sh", "-c", script], capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_reported_in_one_line(shell, store, tmp_path):
    if not can_mount():
        miss("unshare, to mount a small disk", "apt install util-linux; it needs user namespaces")
    (tmp_path / "small").mkdir()
    script = 'mount -t tmpfs -o size=16k none small && "$@"; code=$?; ls small; exit $code'
    command = [*NAMESPACE, "sh", "-c", script, "sh", *COMMAND, "backup", "small/copy.db", "--data", str(store.parent)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=shell.environment, check=False)
    assert done.returncode == 7, done.stderr
    assert done.stderr.count("\n") == 1
    assert "the disk of small/copy.db is full; nothing was changed" in done.stderr
    assert done.stdout == ""  # and nothing is left behind


def test_an_interrupted_backup_leaves_nothing_behind(store, tmp_path):
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(store, tmp_path / "copy.db", check_store, progress=interrupt)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("copy")]


def test_the_oldest_schema_can_be_checked_and_copied(tmp_path):
    """A schema that a server would migrate at its next start is not a violation."""
    with ServerProcess(tmp_path / "data") as server:
        httpx2.put(f"{server.url}/v1/stream/x", trust_env=False).raise_for_status()
        server.terminate()
    with open_snapshot(tmp_path / "data" / "mainstem.db") as snapshot:
        assert check_store(snapshot).findings == ()
