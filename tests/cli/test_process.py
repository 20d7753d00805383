"""The command line as a process."""

import socket
import subprocess

import httpx2
import pytest

import mainstem
from mainstem.server.settings import Settings
from mainstem.testing.server import ServerProcess, start_process
from tests.support.command_line import COMMAND, clean_environment


def run(*arguments, **environment):
    environment = clean_environment(**environment)
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_the_version_is_printed():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"mainstem, version {mainstem.__version__}\n")


def test_the_help_names_the_commands():
    done = run("--help")
    assert done.returncode == 0
    assert "serve" in done.stdout


def test_the_help_of_serve_names_every_setting():
    done = run("serve", "--help")
    assert done.returncode == 0
    for name in Settings.__struct_fields__:
        assert "--" + name.replace("_", "-") in done.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--port", "abc"], {}, "port"),
        (["--port", "70000"], {}, "port"),
        (["--store", "punched-cards"], {}, "store"),
        (["--nonsense"], {}, "--nonsense"),
        (["--config", "/nowhere/mainstem.toml"], {}, "/nowhere/mainstem.toml"),
        ([], {"MAINSTEM_LONG_POLL_MS": "-5"}, "MAINSTEM_LONG_POLL_MS"),
        ([], {"MAINSTEM_CONFIG": "/nowhere/mainstem.toml"}, "/nowhere/mainstem.toml"),
        (["--host", "0.0.0.0"], {}, "--insecure"),
        (["--host", "192.0.2.1", "--insecure"], {}, "192.0.2.1"),
    ],
)
def test_an_invalid_setting_stops_the_start_with_a_clear_message(tmp_path, arguments, environment, said):
    done = run("serve", "--data", str(tmp_path / "data"), *arguments, **environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_port_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--data", str(tmp_path / "data"), "--port", port)
    assert done.returncode == 2
    assert port in done.stderr
    assert "Traceback" not in done.stderr


def test_data_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    done = run("serve", "--port", "0", "--data", str(tmp_path / "file"))
    assert done.returncode == 2
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_public_address_is_served_with_insecure(start_server):
    server = start_server("--host", "0.0.0.0", "--insecure", "--store", "memory")
    assert server.url.startswith("http://0.0.0.0:")


def test_a_file_configures_a_real_server(tmp_path, start_server):
    config = tmp_path / "mainstem.toml"
    config.write_text('store = "memory"\nlog_format = "json"\nlog_level = "debug"\n')
    start_server("--config", str(config))
    assert not (tmp_path / "data").exists()  # so the server uses the memory store


def test_a_server_process_starts_the_program_unless_configured_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(ServerProcess, "launch", staticmethod(start_process))
    with ServerProcess(tmp_path / "data") as server:
        assert httpx2.get(f"{server.url}/readyz", trust_env=False).status_code == 200
        assert server.terminate() == 0
    assert server.data.is_dir()
