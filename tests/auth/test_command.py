"""`mainstem token` as a process, and the tokens that it makes against a real server."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from tests.auth.endpoints import ROOT, TEXT
from tests.support.command_line import COMMAND
from tests.support.issuers import bearer


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, "token", *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def secret(tmp_path) -> str:
    file = str(tmp_path / "secret")
    made = run("--new-secret", file)
    assert (made.returncode, made.stderr) == (0, "")
    return file


def test_a_new_secret_is_readable_by_its_owner_only_and_never_overwritten(tmp_path, secret):
    assert stat.S_IMODE(Path(secret).stat().st_mode) == 0o600
    content = Path(secret).read_bytes()
    assert len(content) > 32
    again = run("--new-secret", secret)
    assert again.returncode == 2
    assert secret in again.stderr
    assert Path(secret).read_bytes() == content
    other = run("--new-secret", str(tmp_path / "other"), "--json")
    assert json.loads(other.stdout) == {"secret_file": str(tmp_path / "other")}
    assert (tmp_path / "other").read_bytes() != content


def test_a_server_accepts_the_tokens_that_the_command_makes(start_server, connect_to, secret):
    server = start_server("--store", "memory", "--jwt-secret-file", secret)
    client = connect_to(server)
    assert client.get("/v1/streams").status_code == 401

    def token(*arguments: str) -> dict[str, str]:
        done = run("--secret-file", secret, "--client-id", "me", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return bearer(done.stdout.strip())

    reader, writer = token("--read", "a/**", "--read", "b"), token("--write", "a/*")
    assert client.put(ROOT + "a/x", headers={**TEXT, **writer}, content=b"data").status_code == 201
    assert client.get(ROOT + "a/x", headers=writer).status_code == 403
    assert client.get(ROOT + "a/x", headers=reader).content == b"data"
    assert client.get(ROOT + "b", headers=reader).status_code == 404
    assert client.put(ROOT + "b", headers={**TEXT, **token("--admin")}).status_code == 201
    users = token("--partition", "users", "--partition-prefix", "team-")
    assert client.get("/v1/partition/users", headers=users).status_code == 200
    assert client.get("/v1/partition/team-1", headers=users).status_code == 200
    assert client.get("/v1/partition/team", headers=users).status_code == 403


def test_a_server_with_tokens_may_use_a_public_address(start_server, secret):
    server = start_server("--store", "memory", "--host", "0.0.0.0", "--jwt-secret-file", secret)
    assert server.url.startswith("http://0.0.0.0:")


def test_json_output_contains_the_expiry_of_the_token(secret):
    done = run("--secret-file", secret, "--client-id", "me", "--expires-in", "30d", "--json")
    made = json.loads(done.stdout)
    assert set(made) == {"token", "client_id", "expires_at"}
    assert made["client_id"] == "me"
    short = json.loads(run("--secret-file", secret, "--client-id", "me", "--expires-in", "90s", "--json").stdout)
    assert 29 * 86_400 < made["expires_at"] - short["expires_at"] < 31 * 86_400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--secret-file", "{secret}"], "Error: a token needs --client-id, the name of its holder\n"),
        (["--client-id", "me"], "Error: a token needs --secret-file, the secret file of the server (`"),
        ([], "makes one) and --client-id, the name of its holder\n"),
        (["--secret-file", "/nowhere/secret", "--client-id", "me"], "/nowhere/secret"),
        (["--secret-file", "{secret}", "--client-id", "me", "--expires-in", "soon"], "expires-in"),
        (["--secret-file", "{secret}", "--client-id", "me", "--read", "/a"], "glob"),
        (["--secret-file", "{secret}", "--client-id", ""], "client_id"),
        (["--secret-file", "{secret}", "--client-id", "me", "--new-secret", "x"], "--new-secret"),
    ],
)
def test_an_error_names_the_invalid_option(secret, arguments, said):
    done = run(*(argument.format(secret=secret) for argument in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
