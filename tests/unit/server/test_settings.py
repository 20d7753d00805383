import pytest
from click import Option

from mainstem import limits
from mainstem.cli.serve import serve
from mainstem.errors import SettingsError
from mainstem.server.settings import ENVIRONMENT_PREFIX, Settings, load_settings

FIELDS = Settings.__struct_fields__


@pytest.fixture
def config(tmp_path):
    """Writes a TOML file."""

    def write(text):
        path = tmp_path / "mainstem.toml"
        path.write_text(text)
        return str(path)

    return write


def test_without_anything_the_defaults_hold():
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
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {ENVIRONMENT_PREFIX + name.upper(): value})
    assert name in caught.value.detail


def test_an_unknown_key_of_the_file_is_refused_by_name(config):
    with pytest.raises(SettingsError, match="prot"):
        load_settings({}, {}, config("prot = 4437\n"))


def test_a_variable_that_is_no_setting_is_left_alone():
    assert load_settings({}, {"MAINSTEM_URL": "http://x", "PATH": "/bin", "PORT": "1"}) == Settings()


def test_a_file_that_is_missing_or_broken_is_named(config, tmp_path):
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load_settings({}, {}, missing)
    with pytest.raises(SettingsError, match=r"mainstem\.toml"):
        load_settings({}, {}, config("port = = 1"))
    with pytest.raises(SettingsError):
        load_settings({}, {}, str(tmp_path))


def flags():
    return {option.name: option for option in serve.params if isinstance(option, Option)}


def test_every_setting_is_a_flag_of_serve_and_every_flag_is_a_setting():
    assert set(flags()) - {"config"} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_the_help_of_a_flag_tells_its_default(name):
    option = flags()[name]
    assert option.help
    if option.is_flag:
        assert option.default is None  # not given is not false: the environment may say true
    else:
        default = getattr(Settings(), name)
        assert f"[default: {'none' if default is None else default}]" in option.help
