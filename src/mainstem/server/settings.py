"""Settings: a flag beats the environment (`MAINSTEM_*`), which beats the TOML file, which beats the default."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import inspect

from mainstem import limits
from mainstem.errors import SettingsError
from mainstem.streams.rules import paths

ENVIRONMENT_PREFIX = "MAINSTEM_"
OTHER_VARIABLES: Final = frozenset(["CONFIG", "CONTEXT", "SPARK_MASTER", "SPARK_NICENESS", "TOKEN", "URL", "WORK"])
"""Variables that are not settings of the server: the command line, the pipeline and the examples read them."""
IGNORED_VARIABLES: Final = re.compile(r"(?:TEST_|SERVICE_(?:HOST|PORT)|PORT_\d+_TCP).*")
"""Variables of the tests, and those that Kubernetes sets for a service that is named mainstem."""
POSTGRES = ("postgresql://", "postgres://")

SyncValidation = Literal["none", "model", "tree", "hook"]
SyncIds = Literal["any", "uuid"]
Switch = Literal["on", "off"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
MetricsAccess = Literal["off", "loopback", "on"]
AccessLogFormat = Literal["off", "combined", "json"]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=limits.LONG_POLL_MS_MAX)]
PageBytes = Annotated[int, msgspec.Meta(ge=1, le=limits.PAGE_BYTES_MAX)]
Rate = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
FileDescriptor = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Connections = Annotated[int, msgspec.Meta(ge=1, le=limits.CONNECTIONS_MAX)]
Readers = Annotated[int, msgspec.Meta(ge=1, le=limits.LIVE_READERS_MAX)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
BodyBytes = Annotated[int, msgspec.Meta(ge=1, le=limits.BODY_BYTES_MAX)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that an operator can choose. Every field is a flag, an environment variable and a TOML key."""

    host: str = "127.0.0.1"
    port: Port = 4437
    unix_socket: str | None = None
    fd: FileDescriptor | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    trusted_proxies: str = "loopback"
    allow_origin: str | None = None
    allow_active_content: bool = False
    data: str = "./mainstem-data"
    store: str = "sqlite"
    long_poll_ms: Milliseconds = limits.LONG_POLL_MS
    stream_prefix: str = paths.PREFIX
    page_bytes: PageBytes = limits.PAGE_BYTES
    max_body_bytes: BodyBytes = limits.BODY_BYTES_MAX
    allow_local_webhooks: bool = False
    jwt_secret_file: str | None = None
    jwks: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    max_requests_per_second: Rate = 0
    max_connections_per_client: Connections = limits.CONNECTIONS_PER_CLIENT_MAX
    max_live_readers_per_client: Readers = limits.LIVE_READERS_PER_CLIENT_MAX
    max_subscriptions_per_client: Count = limits.SUBSCRIPTIONS_PER_CLIENT_MAX
    insecure: bool = False
    sync_validation: SyncValidation = "none"
    sync_schemas: str | None = None
    sync_hook: str | None = None
    sync_ids: SyncIds = "any"
    implicit_subscriptions: bool = False
    test_endpoints: bool = False
    console: Switch | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    access_log: AccessLogFormat = "off"
    metrics: MetricsAccess = "loopback"

    def __post_init__(self) -> None:
        _check_text("store", self.store, "store")
        _check_text("stream_prefix", self.stream_prefix, "stream_prefix")

    @property
    def authenticates(self) -> bool:
        """Whether callers must present a token."""
        return self.jwt_secret_file is not None or self.jwks is not None


class SettingsKeywords(TypedDict, total=False):
    """The fields of `Settings` as keywords of `create_app`, so that editors complete them and mypy checks them."""

    host: str
    port: int
    unix_socket: str | None
    fd: int | None
    tls_cert: str | None
    tls_key: str | None
    trusted_proxies: str
    allow_origin: str | None
    allow_active_content: bool
    data: str
    store: str
    long_poll_ms: int
    stream_prefix: str
    page_bytes: int
    max_body_bytes: int
    allow_local_webhooks: bool
    jwt_secret_file: str | None
    jwks: str | None
    jwt_issuer: str | None
    jwt_audience: str | None
    max_requests_per_second: int
    max_connections_per_client: int
    max_live_readers_per_client: int
    max_subscriptions_per_client: int
    insecure: bool
    sync_validation: SyncValidation
    sync_schemas: str | None
    sync_hook: str | None
    sync_ids: SyncIds
    implicit_subscriptions: bool
    test_endpoints: bool
    console: Switch | None
    log_format: LogFormat
    log_level: LogLevel
    access_log: AccessLogFormat
    metrics: MetricsAccess


FIELDS: Final = {field.name: field for field in msgspec.structs.fields(Settings)}


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ, config: str | None = None
) -> Settings:
    """Return the settings in force. `flags` are those of the command line; None stands for a flag that was not given.

    Raises `SettingsError`, which names the flag, the variable, or the file and line that is wrong.
    """
    values: dict[str, Any] = {}
    if config is not None:
        values.update(_read_file(Path(config)))
    for name in FIELDS:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environment:
            # The environment holds nothing but text.
            values[name] = _convert(name, environment[variable], variable, strict=False)
    for name, value in flags.items():
        if value is not None:
            values[name] = _convert(name, value, f"--{name.replace('_', '-')}", strict=False)
    return Settings(**values)


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Return settings made of keywords. Raises `SettingsError` for a name that is no setting, or for a wrong value."""
    for name in values:
        if name not in FIELDS:
            raise SettingsError(f"there is no setting {name!r}{_suggest(name, FIELDS)}")
    return Settings(**{name: _convert(name, value, name, strict=True) for name, value in values.items()})


def find_unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a warning for each `MAINSTEM_*` variable that nothing reads: it is probably misspelt."""
    known = {name.upper() for name in FIELDS} | OTHER_VARIABLES
    given = sorted(name.removeprefix(ENVIRONMENT_PREFIX) for name in environment if name.startswith(ENVIRONMENT_PREFIX))
    return [
        f"{ENVIRONMENT_PREFIX}{name} is not a setting, and is ignored{_suggest(name, known, ENVIRONMENT_PREFIX)}"
        for name in given
        if name not in known and not IGNORED_VARIABLES.fullmatch(name)
    ]


# Values


def _convert(name: str, value: Any, source: str, *, strict: bool) -> Any:
    """Return the value as the type of its setting. `source` says where it comes from."""
    try:
        value = msgspec.convert(value, FIELDS[name].type, strict=strict)
    except msgspec.ValidationError:
        detail = f"{source} must be {describe_values(name)}, not {_show(value)}"
        if str(value).startswith("tcp://"):
            detail += "; Kubernetes sets it for a service named mainstem unless the pod has enableServiceLinks: false"
        raise SettingsError(detail) from None
    _check_text(name, value, source)
    return value


def _check_text(name: str, value: str, source: str) -> None:
    """Check the settings whose values have a form that their type does not express."""
    if name == "store" and value not in ("sqlite", "memory") and not value.startswith(POSTGRES):
        # The value is not shown: it may be a URL with a password and a typing error in it.
        raise SettingsError(f"{source} must be sqlite, memory, or a URL like postgresql://user@host:5432/database")
    if name == "stream_prefix":
        try:
            paths.check_prefix(value)
        except ValueError as error:
            raise SettingsError(f"{source}: {error}") from None


def describe_values(name: str) -> str:
    """Return which values a setting accepts, such as `a whole number from 0 to 65535`."""
    type_ = inspect.type_info(FIELDS[name].type)
    if isinstance(type_, inspect.UnionType):  # with None
        type_ = next(part for part in type_.types if not isinstance(part, inspect.NoneType))
    if isinstance(type_, inspect.IntType):
        return f"a whole number from {type_.ge} to {type_.le}"
    if isinstance(type_, inspect.LiteralType):
        *others, last = _list_choices(FIELDS[name].type)
        return f"{', '.join(others)} or {last}"
    return "true or false" if isinstance(type_, inspect.BoolType) else "text"


def _list_choices(type_: Any) -> list[str]:
    """Return the values of a Literal, or of one that may also be None, in the order of the code."""
    return [choice for part in get_args(type_) for choice in (get_args(part) or [part]) if isinstance(choice, str)]


def _show(value: Any) -> str:
    text = "nothing" if value == "" else repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def _suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


# The file


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"the configuration file {path} is not UTF-8") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(_explain_toml_error(path, text, str(error))) from None
    for name, value in values.items():
        where = f"{path}, line {_find_line(text, name)}"
        if name in FIELDS:
            values[name] = _convert(name, value, f"{where}: {name}", strict=True)
        elif isinstance(value, dict):
            raise SettingsError(
                f"{where}: there is no table [{name}]; settings are top-level keys, such as port = 4437"
            )
        else:
            raise SettingsError(f"{where}: there is no setting {name!r}{_suggest(name, FIELDS)}")
    return values


def _explain_toml_error(path: Path, text: str, reason: str) -> str:
    found = re.search(r"\(at line (\d+), column \d+\)", reason)
    line = int(found[1]) if found else len(text.splitlines()) or 1
    if reason.startswith("Cannot overwrite a value"):
        return f"{path}, line {line}: this key is set twice"
    return (
        f'{path}, line {line}: this is not valid TOML; write key = value, with text in quotes, such as data = "./log"'
    )


def _find_line(text: str, name: str) -> int:
    """Return the number of the line that sets a top-level key, or opens a table of that name."""
    quoted = rf"[\"']?{re.escape(name)}[\"']?"
    pattern = re.compile(rf"\s*(?:{quoted}\s*[=.]|\[+\s*{quoted}\s*[\].])")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)
