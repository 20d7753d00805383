"""Builds the AsyncAPI 3.0 description of the sync protocol: its messages in both directions, as JSON Schemas."""

from typing import Any, Final

import msgspec

import mainstem
from mainstem import limits
from mainstem.server.descriptions.bodies import describe_fields
from mainstem.server.descriptions.model import JsonSchema
from mainstem.server.descriptions.sync_messages import (
    CLIENT_FIELDS,
    FROM_CLIENT,
    FROM_SERVER,
    SYNC_ERRORS,
    SyncMessage,
)
from mainstem.server.routes import SYNC, SYNC_CORE
from mainstem.server.settings import Settings
from mainstem.sync.protocol.messages import VERSION as PROTOCOL_VERSION

VERSION: Final = "3.0.0"
SCHEMAS: Final = "#/components/schemas/{name}"

CHANNELS: Final = {
    "sync": (SYNC, "The sync protocol."),
    "syncCore": (
        SYNC_CORE,
        "The same for clients without `subscription_partitions`: a `sync` subscribes to its `partitions`.",
    ),
}


def build_asyncapi(settings: Settings, root: str) -> dict[str, Any]:
    """Return the document of a server that is mounted at `root`, which is empty for a server of its own."""
    messages = FROM_CLIENT | FROM_SERVER
    references = [{"$ref": f"#/components/messages/{type_}"} for type_ in messages]
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Mainstem sync protocol",
            "version": mainstem.__version__,
            "description": "JSON text messages over one WebSocket. `/openapi.json` describes the HTTP API."
            + (" The token is part of `connect`, not of the URL." if settings.authenticates else ""),
            "license": {"name": "Apache License 2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            name: {
                "address": root + address.decode(),
                "description": about,
                "messages": dict(zip(messages, references, strict=True)),
                "bindings": {"ws": {"method": "GET"}},
            }
            for name, (address, about) in CHANNELS.items()
        },
        "operations": {
            f"{name}.{type_}": _describe_operation(name, type_)
            for name in CHANNELS
            for type_ in (*FROM_CLIENT, "event_broadcast", "error")
        },
        "components": {
            "messages": {type_: _describe_message(type_, message) for type_, message in messages.items()},
            "schemas": _describe_payloads(),
        },
    }


def _describe_operation(channel: str, type_: str) -> dict[str, Any]:
    """Describe an exchange from the server's side: it receives what clients send, and sends the rest."""
    described: dict[str, Any] = {
        "action": "receive" if type_ in FROM_CLIENT else "send",
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": (FROM_CLIENT | FROM_SERVER)[type_].summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{type_}"}],
    }
    if type_ in FROM_CLIENT and FROM_CLIENT[type_].replies:
        replies = [*FROM_CLIENT[type_].replies, "error"]
        described["reply"] = {
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{reply}"} for reply in replies],
        }
    return described


def _describe_message(type_: str, message: SyncMessage) -> dict[str, Any]:
    return {
        "name": type_,
        "title": type_,
        "summary": message.summary,
        "contentType": "application/json",
        "payload": describe_envelope(type_, message),
    }


def describe_envelope(type_: str, message: SyncMessage) -> JsonSchema:
    """Return the schema of a whole message. The server ignores unknown fields; clients must do the same."""
    msg_id = "A string or an integer. A direct reply repeats it."
    if type_ == "event_broadcast":
        msg_id = "`evt-<committed_id>`."
    properties: JsonSchema = {
        "type": {"const": type_},
        "payload": {"$ref": SCHEMAS.format(name=message.payload.__name__)},
        "protocol_version": {"const": PROTOCOL_VERSION},
        "msg_id": {"type": ["string", "integer"], "description": msg_id},
    }
    time = "When the server sent the message, as RFC 3339 with milliseconds."
    if type_ in FROM_CLIENT:
        properties["msg_id"]["type"] = ["string", "integer", "null"]
        time = "Ignored."
    properties["timestamp"] = {"type": "string", "description": time}
    required = ["type", "payload", "protocol_version"]
    return {
        "type": "object",
        "properties": properties,
        "required": required if type_ in FROM_CLIENT else [*required, "timestamp"],
        **({} if type_ in FROM_CLIENT else {"additionalProperties": False}),
    }


def _describe_payloads() -> dict[str, JsonSchema]:
    types = [message.payload for message in (FROM_CLIENT | FROM_SERVER).values()]
    _, components = msgspec.json.schema_components(dict.fromkeys(types), ref_template=SCHEMAS)
    fields = {type_.__name__: about for type_, about in CLIENT_FIELDS.items()}
    described = {
        name: describe_fields(schema, fields[name]) if name in fields else schema for name, schema in components.items()
    }
    items = described["SubmitEventsResultPayload"]["properties"]["results"]["items"]
    items["discriminator"] = items["discriminator"]["propertyName"]  # msgspec writes OpenAPI's form of it
    codes = [f"`{error.code}`{' closes the connection' if error.closes else ''}" for error in SYNC_ERRORS]
    code = described["ErrorPayload"]["properties"]["code"]
    code["enum"] = [error.code for error in SYNC_ERRORS]
    code["description"] += f" {', '.join(codes)}. A message of more than {limits.SYNC_MESSAGE_BYTES_MAX} bytes closes"
    code["description"] += " it too."
    return described
