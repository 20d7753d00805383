"""The operations about callers: who they are, and which of them have sync sessions."""

from typing import Final

from mainstem import errors, limits
from mainstem.server.descriptions import bodies
from mainstem.server.descriptions.model import (
    JSON,
    Access,
    In,
    Operation,
    Parameter,
    Path,
    Reply,
    group_digits,
    integer,
)

WHOAMI: Final = Path(
    "/v1/whoami",
    {
        "get": Operation(
            "getCaller",
            "Server",
            "Look up what the caller may do",
            "Returns the claims of the caller's token. On a server without tokens, everybody may do everything.",
            (),
            None,
            (Reply(200, "The caller.", (), {JSON: bodies.Caller}),),
            access=Access.ANY,
        )
    },
)

SESSIONS: Final = Path(
    "/v1/sessions",
    {
        "get": Operation(
            "listSessions",
            "Sessions",
            "List sync sessions",
            "The open connections of the sync protocol to this node, the oldest first.",
            (
                Parameter(
                    "after",
                    "Begin after this session: the last one of the page before.",
                    integer(0, limits.INTEGER_MAX, default=0),
                ),
                Parameter(
                    "limit",
                    f"How many to return: 1 to {group_digits(limits.LISTED_SESSIONS)}, which is also the default.",
                    integer(1, limits.LISTED_SESSIONS, default=limits.LISTED_SESSIONS),
                ),
            ),
            None,
            (Reply(200, "A page of the list.", (), {JSON: bodies.SessionList}),),
            (errors.BadQuery,),
            access=Access.ADMIN,
        )
    },
)

SESSION: Final = Path(
    "/v1/sessions/{session}",
    {
        "delete": Operation(
            "disconnectSession",
            "Sessions",
            "Disconnect a sync session",
            "Closes the connection with code 1008, after the replies to what the client has submitted. The client may"
            " connect again.",
            (Parameter("session", "The number of the session.", integer(1), In.PATH, required=True),),
            None,
            (Reply(204, "The connection is being closed."),),
            (errors.NotFound,),
            access=Access.ADMIN,
        )
    },
)
