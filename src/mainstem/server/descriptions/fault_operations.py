"""The operations of `--test-endpoints`. Apart from the others, because the faults need the whole app."""

from typing import Final

from mainstem import errors
from mainstem.server.descriptions.model import JSON, Access, Body, JsonSchema, Operation, Path, Reply
from mainstem.server.endpoints.fault_injection import PATH, Fault, SseEvent

FAULTS: Final = Path(
    PATH,
    {
        "post": Operation(
            "injectFault",
            "Fault injection",
            "Inject a fault into the next requests to a path",
            "Fields that are null count as absent.",
            (),
            Body("The fault.", {JSON: Fault}),
            (Reply(204, "The fault waits for its requests."),),
            (errors.RepeatedHeader, errors.BadRequest, errors.BodyTooLarge),
            access=Access.ADMIN,
        ),
        "delete": Operation(
            "removeFaults",
            "Fault injection",
            "Remove all faults",
            "",
            (),
            None,
            (Reply(204, "No fault waits."),),
            access=Access.ADMIN,
        ),
    },
)

FAULT_FIELDS: Final[dict[type, dict[str, str | JsonSchema]]] = {
    SseEvent: {"eventType": "The type of the event.", "data": "The data of the event."},
    Fault: {
        "path": "Which requests: a stream's path, with or without the stream prefix, or any other path.",
        "method": "Only requests with this method; any by default.",
        "count": "How many of these requests fail; 1 by default.",
        "probability": "The chance that a request fails, 0 to 1; 1 by default.",
        "status": "The reply has this status, and the server does not carry the request out.",
        "retryAfter": "`Retry-After` of that reply.",
        "delayMs": "How much later the server handles the request, in milliseconds.",
        "jitterMs": "Up to how much longer the delay may be, at random.",
        "dropConnection": "The connection breaks, and the server does not carry the request out.",
        "dropReply": "The server carries the request out, and the connection breaks instead of the reply.",
        "dropAfterBytes": "The connection breaks after this many bytes of the reply's body.",
        "truncateBodyBytes": "The body ends after this many bytes, as if it were complete.",
        "corruptBody": "Every eighth byte of the reply's body is changed.",
        "injectSseEvent": "An event to send before those of an event stream.",
    },
}
