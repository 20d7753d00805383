"""Settings: a flag beats the environment (`MAINSTEM_*`), which beats the TOML file, which beats the default."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from mainstem import limits
from mainstem.errors import SettingsError
from mainstem.streams.rules import paths

ENVIRONMENT_PREFIX = "MAINSTEM_"
POSTGRES = ("postgresql://", "postgres://")

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
    """What an operator can choose. Every field is a flag, an environment variable and a key of the TOML file."""

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
    sync_validation: Literal["none", "model", "tree", "hook"] = "none"
    sync_schemas: str | None = None
    sync_hook: str | None = None
    sync_ids: Literal["any", "uuid"] = "any"
    implicit_subscriptions: bool = False
    test_endpoints: bool = False
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        if self.store not in ("sqlite", "memory") and not self.store.startswith(POSTGRES):
            # Not shown: it may be a URL with a password and a slip in it.
            raise ValueError("store is sqlite, memory, or a URL like postgresql://user@host:5432/database")
        try:
            paths.check_prefix(self.stream_prefix)
        except ValueError as error:
            raise ValueError(f"stream_prefix: {error}") from None

    @property
    def authenticates(self) -> bool:
        """Whether callers must show a token."""
        return self.jwt_secret_file is not None or self.jwks is not None


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ, config: str | None = None
) -> Settings:
    """The settings in force. `flags` are those that were given; None means not given."""
    values: dict[str, Any] = {}
    if config is not None:
        values.update(_read_file(Path(config)))
    for name in Settings.__struct_fields__:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environment:
            values[name] = environment[variable]
    values.update({name: value for name, value in flags.items() if value is not None})
    try:
        # Not strict: the environment knows only text.
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(str(error)) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
