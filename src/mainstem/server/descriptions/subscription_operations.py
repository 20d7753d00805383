"""The operations on one subscription for operators, below `/v1/subscriptions/`."""

from typing import Final

from mainstem import errors, limits
from mainstem.server.descriptions import bodies
from mainstem.server.descriptions.model import JSON, Access, Body, Operation, Path, Reply
from mainstem.server.descriptions.stream_operations import SUBSCRIPTION_ID
from mainstem.streams.subscriptions.admin_http import RedeliverRequest

_ERRORS: Final = (errors.BadPath, errors.InvalidSubscription, errors.SubscriptionNotFound)


def _control(
    action: str,
    summary: str,
    description: str,
    done: str,
    body: Body | None = None,
    refusals: tuple[type[errors.MainstemError], ...] = (),
) -> Path:
    return Path(
        f"/v1/subscriptions/{{id}}/{action}",
        {
            "post": Operation(
                f"{action}Subscription",
                "Subscriptions",
                summary,
                description,
                (SUBSCRIPTION_ID,),
                body,
                (Reply(204, done),),
                (*_ERRORS, errors.RepeatedHeader, errors.BodyTooLarge, *refusals),
                access=Access.ADMIN,
                writes=True,
            )
        },
    )


SUBSCRIPTION: Final = Path(
    "/v1/subscriptions/{id}",
    {
        "get": Operation(
            "inspectSubscription",
            "Subscriptions",
            "Inspect a subscription",
            "Its wake, lease, retries and latest failure, and how far each stream was acknowledged.",
            (SUBSCRIPTION_ID,),
            None,
            (Reply(200, "The subscription.", (), {JSON: bodies.SubscriptionDetails}),),
            _ERRORS,
            access=Access.ADMIN,
        )
    },
)
SUBSCRIPTION_CONTROLS: Final = (
    _control(
        "pause",
        "Pause a subscription",
        "The server sends no wakes and accepts no claims until the subscription is resumed, even after a restart. A"
        " worker that holds the lease may finish and acknowledge. Pausing again changes nothing.",
        "The subscription is paused.",
    ),
    _control(
        "resume",
        "Resume a subscription",
        "The server sends wakes again: for what was appended during the pause, and for a wake that no worker has"
        " claimed. A webhook that waits for its next attempt keeps that time.",
        "The subscription is not paused.",
    ),
    _control(
        "redeliver",
        "Deliver again what was not acknowledged",
        "Ends the current wake with its lease and its retries, and wakes the worker again at once, with everything"
        " that was not acknowledged; after the pause if the subscription is paused. If nothing is left, no wake"
        " follows.",
        "The current wake has ended.",
        Body(
            f"Optional. Up to {limits.CONTROL_BODY_BYTES_MAX // limits.MIB} MiB; its content type is not checked.",
            {JSON: RedeliverRequest},
            required=False,
        ),
        (errors.InvalidOffset,),
    ),
)
