"""The vocabulary of the tables that describe the HTTP API: operations, their parameters, bodies and replies."""

from enum import Enum
from typing import Any, NamedTuple

from mainstem.errors import MainstemError

JsonSchema = dict[str, Any]
Content = Any
"""The shape of a body: a type that msgspec knows, or a JSON Schema."""

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ANY = "*/*"

TEXT: JsonSchema = {"type": "string"}
FLAG: JsonSchema = {"type": "string", "const": "true"}
BYTES: JsonSchema = {}
"""Any content: OpenAPI 3.1 describes bytes by a media type without a schema."""


def integer(least: int = 0, most: int | None = None, *, default: int | None = None) -> JsonSchema:
    """Return the schema of an integer between two bounds, both included."""
    bounds = {"minimum": least, "maximum": most, "default": default}
    return {"type": "integer", **{name: value for name, value in bounds.items() if value is not None}}


def group_digits(number: int) -> str:
    """Return a number for people: 1000, 10 000."""
    return str(number) if number < 10_000 else f"{number:,}".replace(",", " ")


def choice(*values: str) -> JsonSchema:
    return {"type": "string", "enum": list(values)}


class In(Enum):
    """Where a parameter stands in a request."""

    QUERY = "query"
    HEADER = "header"
    PATH = "path"


class Parameter(NamedTuple):
    name: str
    description: str
    schema: JsonSchema = TEXT
    place: In = In.QUERY
    required: bool = False
    repeats: bool = False
    """Whether a query may have several of them."""


class Body(NamedTuple):
    """The body of a request."""

    description: str
    content: dict[str, Content]
    required: bool = True


class Reply(NamedTuple):
    """The reply to a request that succeeded, or that needs no body."""

    status: int
    description: str
    headers: tuple[str, ...] = ()
    """Those that tell something about this reply; the table of headers has the ones that every reply may carry."""
    content: dict[str, Content] | None = None
    lines: type | None = None
    """Of NDJSON: what each line holds."""
    events: dict[str, Content] | None = None
    """Of an event stream: what the data of each event holds."""


class Access(Enum):
    """Which token an operation needs, on a server that asks for tokens."""

    PUBLIC = "public"
    ANY = "any"
    """Any token will do; what the reply holds depends on it."""
    TOKEN = "token"
    ADMIN = "admin"
    METRICS = "metrics"
    """An admin token, or one with the claim `metrics`."""
    WAKE = "wake"
    """The token of a wake or a claim, on every server."""


class Operation(NamedTuple):
    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    replies: tuple[Reply, ...] = ()
    errors: tuple[type[MainstemError], ...] = ()
    error_headers: tuple[str, ...] = ()
    """Headers of the errors of this operation, beyond those that `headers.ERROR_HEADERS` gives to a class."""
    access: Access = Access.TOKEN
    writes: bool = False
    """Whether it commits something, so that a store that accepts no writes refuses it."""


class Path(NamedTuple):
    """One path of the API, below the stream prefix or below the root."""

    template: str
    operations: dict[str, Operation]
    """By method."""
