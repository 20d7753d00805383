"""Text from strangers cannot control the terminal of the person who reads it."""

import json
import os
import pty
import subprocess
import termios

import httpx2
import pytest

from tests.support.command_line import COMMAND

EVIL = "a\x1b]0;owned\x07b\x9bc\u202ed\re"
DANGEROUS = set("\x1b\x07\x9b\u202e\r")
SHOWN = "a\\x1b]0;owned\\x07b\\x9bc\\u202ed\\x0de"


@pytest.fixture
def see(mainstem):
    """Return what a command writes to a terminal."""

    def run(*arguments: str) -> str:
        ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # the terminal would turn each line break into two characters
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        try:
            subprocess.run(
                [*COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                env=mainstem.environment,
                cwd=mainstem.directory,
                check=False,
                timeout=60,
            )
            os.set_blocking(ours, False)
            try:
                return os.read(ours, 65_536).decode()
            except BlockingIOError:
                return ""  # the command wrote nothing
        finally:
            os.close(theirs)
            os.close(ours)

    return run


def test_data_is_escaped_on_a_terminal_and_nowhere_else(mainstem, see, path):
    data = f"{EVIL}\tx\n".encode() + b"\xff\xfe\n"
    mainstem.ok("stream", "append", path, "--create", "application/octet-stream", input=data)
    shown = f"{SHOWN}\tx\n\\xff\\xfe\n"
    assert see("stream", "read", path) == shown
    assert see("stream", "read", path, "-f", "%v\\n") == shown
    assert see("stream", "tail", path, "--no-follow") == shown
    assert mainstem("stream", "read", path).output == data


def test_raw_shows_the_data_unescaped(mainstem, see, path):
    mainstem.ok("stream", "append", path, "--create", "text", input=EVIL)
    assert see("stream", "read", path, "--raw") == EVIL
    assert see("stream", "read", path, "--raw", "-f", "%v") == EVIL


def test_a_character_that_arrives_in_two_parts_is_whole(mainstem, see, path, server):
    url = f"{server.url}/v1/stream/{path}"
    with httpx2.Client(trust_env=False) as client:
        client.put(url, headers={"content-type": "text/plain"})
        for piece in ("é".encode()[:1], "é".encode()[1:], b"\xc3"):
            assert client.post(url, headers={"content-type": "text/plain"}, content=piece).status_code == 204
    assert see("stream", "read", path) == "é\\xc3"


def test_json_on_a_terminal_is_valid_and_contains_no_control_characters(mainstem, see, path):
    message = json.dumps({"text": EVIL}, ensure_ascii=False)
    mainstem.ok("stream", "append", path, "--create", "json", "-m", message)
    seen = see("stream", "read", path, "--json")
    assert not set(seen) & DANGEROUS
    assert json.loads(seen)["value"] == {"text": EVIL}
    seen = see("log", "tail", "--no-follow", "--stream", path, "-n", "1000", "--json")
    assert not set(seen) & DANGEROUS
    assert json.loads(json.loads(seen)["data"]) == {"text": EVIL}


def test_events_are_escaped_on_a_terminal(mainstem, see, path):
    partition = path + "\u202e"
    mainstem.ok("sync", "submit", "-p", partition, input=json.dumps({"text": EVIL}, ensure_ascii=False))
    for command in (
        ("sync", "pull", "-p", partition, "-f", "%p %v"),
        ("log", "tail", "--no-follow", "-p", partition, "-n", "1000"),
    ):
        seen = see(*command)
        assert not set(seen) & DANGEROUS
        assert f"{path}\\u202e " in seen
    assert "\u202e" in mainstem.ok("sync", "pull", "-p", partition, "-f", "%p")


def test_names_are_escaped_wherever_they_are_listed(mainstem, see, path, server):
    name = path + "/\u202egpj.exe\x9b"
    mainstem.ok("stream", "create", name)
    for listed in (mainstem.ok("stream", "ls", path), see("stream", "ls", path)):
        assert listed == f"{path}/\\u202egpj.exe\\x9b\n"
    assert json.loads(mainstem.ok("stream", "ls", path, "--json"))["path"] == name


def test_an_empty_list_says_so_on_a_terminal_and_nowhere_else(mainstem, see):
    for arguments, said in (
        (("stream", "ls", "nothing/"), "mainstem: no streams begin with 'nothing/': create one with "),
        (("stream", "ls", "nothing/", "--long"), "mainstem: no streams begin with "),
        (("subscription", "ls", "nothing"), "mainstem: no subscriptions begin with 'nothing': create one with "),
        (("context", "ls"), "mainstem: no contexts: add one with "),
    ):
        assert see(*arguments).startswith(said)
        assert mainstem.ok(*arguments) == ""
        assert see(*arguments, "--json") == ""


def test_errors_are_escaped(mainstem):
    failed = mainstem("stream", "read", "\u202emissing\x9b")
    assert failed.code != 0
    assert "missing" in failed.errors
    assert not set(failed.errors) & DANGEROUS
