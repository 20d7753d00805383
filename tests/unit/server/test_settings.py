import re
from pathlib import Path
from typing import get_type_hints

import pytest
from click import Option

from mainstem import limits
from mainstem.cli.serve import serve
from mainstem.errors import SettingsError
from mainstem.server.app import create_app
from mainstem.server.settings import (
    ENVIRONMENT_PREFIX,
    Settings,
    SettingsKeywords,
    describe_values,
    find_unknown_variables,
    load_settings,
)

FIELDS = Settings.__struct_fields__
ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(tmp_path):
    """Write a TOML file."""

    def write(text):
        path = tmp_path / "mainstem.toml"
        path.write_text(text)
        return str(path)

    return write


def test_without_any_source_the_defaults_apply():
    assert load_settings({}, {}) == Settings()
    assert (Settings().host, Settings().port, Settings().store) == ("127.0.0.1", 4437, "sqlite")


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(config):
    file = config("port = 1\nlong_poll_ms = 1\npage_bytes = 1\n")
    environment = {"MAINSTEM_PORT": "2", "MAINSTEM_LONG_POLL_MS": "2"}
    settings = load_settings({"port": 3, "page_bytes": None}, environment, file)
    assert (settings.port, settings.long_poll_ms, settings.page_bytes) == (3, 2, 1)
    assert settings.max_body_bytes == limits.BODY_BYTES_MAX


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_can_come_from_the_environment_and_from_the_file(config, name):
    value = {
        "host": "127.0.0.9",
        "unix_socket": "/run/mainstem.sock",
        "fd": 3,
        "tls_cert": "/etc/ssl/cert.pem",
        "tls_key": "/etc/ssl/key.pem",
        "trusted_proxies": "10.0.0.0/8",
        "allow_origin": "https://app.example.com",
        "data": "/elsewhere",
        "store": "memory",
        "log_format": "json",
        "log_level": "error",
        "jwt_secret_file": "/run/secret",
        "sync_validation": "tree",
        "sync_ids": "uuid",
        "stream_prefix": "/v1/streams",
        "sync_schemas": "/etc/schemas",
        "sync_hook": "package.module:validate",
        "jwks": "https://issuer.example/jwks.json",
        "jwt_issuer": "https://issuer.example",
        "jwt_audience": "mainstem",
        "console": "off",
        "access_log": "json",
        "metrics": "on",
    }.get(name, True if isinstance(getattr(Settings(), name), bool) else 77)
    if value == 77 and not isinstance(getattr(Settings(), name), int):
        pytest.fail(f"give this test a value for {name}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    from_environment = load_settings({}, {ENVIRONMENT_PREFIX + name.upper(): text})
    literal = text if isinstance(value, int) else f'"{text}"'
    from_file = load_settings({}, {}, config(f"{name} = {literal}\n"))
    assert getattr(from_environment, name) == getattr(from_file, name) == value
    assert getattr(from_file, name) != getattr(Settings(), name)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_a_switch_in_the_environment_is_true_or_false(text, value):
    assert load_settings({}, {"MAINSTEM_INSECURE": text}).insecure is value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "http"),
        ("port", "-1"),
        ("port", "65536"),
        ("port", ""),
        ("store", "postgresql"),
        ("store", ""),
        ("long_poll_ms", "0"),
        ("long_poll_ms", "1.5"),
        ("long_poll_ms", str(limits.LONG_POLL_MS_MAX + 1)),
        ("page_bytes", "0"),
        ("page_bytes", "lots"),
        ("max_body_bytes", "0"),
        ("max_body_bytes", "1e9"),
        ("insecure", "maybe"),
        ("max_requests_per_second", "-1"),
        ("max_requests_per_second", "fast"),
        ("log_format", "xml"),
        ("log_level", "loud"),
    ],
)
def test_an_invalid_value_is_refused_and_its_setting_named(name, value):
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {ENVIRONMENT_PREFIX + name.upper(): value})
    assert caught.value.detail.startswith(f"{ENVIRONMENT_PREFIX}{name.upper()} must be ")


def refusal(flags, environment=None, config=None):
    with pytest.raises(SettingsError) as caught:
        load_settings(flags, environment or {}, config)
    return caught.value.detail


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("port", 70_000, "--port must be a whole number from 0 to 65535, not 70000"),
        ("log_level", "loud", "--log-level must be debug, info, warning or error, not 'loud'"),
        ("sync_ids", "", "--sync-ids must be any or uuid, not nothing"),
        (
            "store",
            "punched-cards",
            "--store must be sqlite, memory, or a URL like postgresql://user@host:5432/database",
        ),
        ("data", "x" * 200, None),
    ],
)
def test_a_bad_flag_is_named_with_the_values_that_it_accepts(name, value, expected):
    if expected is None:
        assert load_settings({name: value}, {}).data == value
    else:
        assert refusal({name: value}) == expected


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_says_which_values_it_accepts(name):
    default = getattr(Settings(), name)
    said = describe_values(name)
    if isinstance(default, bool):
        assert said == "true or false"
    elif isinstance(default, int):
        assert re.fullmatch(r"a whole number from \d+ to \d+", said)
    else:
        assert said == "text" or " or " in said or name == "fd"


def test_a_bad_line_of_the_file_is_named_with_what_is_expected(config):
    file = config('# comment\nhost = "127.0.0.1"\n\nport = "http"\n')
    assert refusal({}, config=file) == f"{file}, line 4: port must be a whole number from 0 to 65535, not 'http'"
    assert refusal({}, config=config("port = 99999\n")).endswith(
        "line 1: port must be a whole number from 0 to 65535, not 99999"
    )
    assert refusal({}, config=config('insecure = "yes"\n')).endswith("insecure must be true or false, not 'yes'")
    assert refusal({}, config=config("data = 5\n")).endswith("line 1: data must be text, not 5")
    assert refusal({}, config=config('port = 1\n"log_level" = "loud"\n')).endswith(
        "line 2: log_level must be debug, info, warning or error, not 'loud'"
    )
    assert refusal({}, config=config('\nstream_prefix = "v1"\n')).startswith(
        f"{file}, line 2: stream_prefix: 'v1' is not a valid prefix"
    )


def test_a_password_in_a_misspelt_store_is_not_shown(config):
    for said in (
        refusal({"store": "postgre://user:hunter2@host/db"}),
        refusal({}, {"MAINSTEM_STORE": "postgre://user:hunter2@host/db"}),
        refusal({}, config=config('store = "postgre://user:hunter2@host/db"\n')),
    ):
        assert "must be sqlite, memory, or a URL" in said
        assert "hunter2" not in said


def test_an_unknown_key_of_the_file_is_named_with_its_line_and_a_suggestion(config):
    file = config('host = "127.0.0.1"\nprot = 4437\n')
    assert refusal({}, config=file) == f"{file}, line 2: there is no setting 'prot'; did you mean port?"
    assert refusal({}, config=config("zzzzzz = 1\n")).endswith("line 1: there is no setting 'zzzzzz'")
    assert refusal({}, config=config("[server]\nport = 1\n")).endswith(
        "line 1: there is no table [server]; settings are top-level keys, such as port = 4437"
    )


def test_a_file_that_is_missing_or_broken_is_named(config, tmp_path):
    missing = str(tmp_path / "missing.toml")
    assert refusal({}, config=missing) == f"cannot read the configuration file {missing}: No such file or directory"
    assert refusal({}, config=config("port = 1\nport = = 1")).endswith(
        'line 2: this is not valid TOML; write key = value, with text in quotes, such as data = "./log"'
    )
    assert refusal({}, config=config("port = 1\nport = 1\n")).endswith("line 2: this key is set twice")
    assert refusal({}, config=str(tmp_path)).startswith(f"cannot read the configuration file {tmp_path}")
    (tmp_path / "latin.toml").write_bytes(b'data = "\xe9"\n')
    assert refusal({}, config=str(tmp_path / "latin.toml")).endswith("latin.toml is not UTF-8")


def test_kubernetes_variables_of_a_service_with_our_name_are_explained():
    assert "enableServiceLinks: false" in refusal({}, {"MAINSTEM_PORT": "tcp://10.0.0.1:80"})
    assert find_unknown_variables({"MAINSTEM_SERVICE_HOST": "10.0.0.1", "MAINSTEM_PORT_80_TCP_ADDR": "10.0.0.1"}) == []


def test_a_variable_that_nothing_reads_is_warned_about_with_a_suggestion():
    environment = {"MAINSTEM_PROT": "1", "MAINSTEM_ZZZZZZZZ": "1", "PATH": "/bin", "PORT": "1", "MAINSTEM_URL": "x"}
    assert load_settings({}, environment) == Settings()
    assert find_unknown_variables(environment) == [
        "MAINSTEM_PROT is not a setting, and is ignored; did you mean MAINSTEM_PORT?",
        "MAINSTEM_ZZZZZZZZ is not a setting, and is ignored",
    ]


def test_every_variable_that_the_project_reads_is_known():
    read = re.compile(r"\bMAINSTEM_[A-Z][A-Z_]*[A-Z]\b")
    folders = [ROOT / "src", ROOT / "examples"]
    found = {name for folder in folders for file in folder.rglob("*.py") for name in read.findall(file.read_text())}
    assert {"MAINSTEM_URL", "MAINSTEM_TOKEN", "MAINSTEM_CONFIG", "MAINSTEM_SPARK_MASTER"} <= found
    assert find_unknown_variables(dict.fromkeys(found, "x")) == []


def test_the_keywords_of_create_app_are_the_settings():
    keywords = get_type_hints(SettingsKeywords)
    plain = get_type_hints(Settings)  # without the bounds
    assert keywords == plain
    assert not SettingsKeywords.__required_keys__


def test_create_app_takes_keywords_and_refuses_others_with_a_suggestion():
    assert create_app(store="memory", page_bytes=77).settings == Settings(store="memory", page_bytes=77)
    with pytest.raises(SettingsError, match=r"^there is no setting 'dta'; did you mean data\?$"):
        create_app(dta="./log")  # type: ignore[call-arg]  # mypy knows the keywords, too
    with pytest.raises(SettingsError, match=r"^page_bytes must be a whole number from 1 to 67108864, not 'many'$"):
        create_app(page_bytes="many")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"^store must be sqlite, memory, or a URL"):
        create_app(store="punched-cards")
    with pytest.raises(SettingsError, match="not both"):
        create_app(Settings(), data="./log")


def flags():
    return {option.name: option for option in serve.params if isinstance(option, Option)}


def test_every_setting_is_a_flag_of_serve_and_every_flag_is_a_setting():
    assert set(flags()) - {"config"} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_the_help_of_a_flag_shows_its_default(name):
    option = flags()[name]
    assert option.help
    if option.is_flag:
        assert option.default is None  # absent is not false: the environment may say true
    else:
        default = getattr(Settings(), name)
        assert f"[default: {'none' if default is None else default}]" in option.help
