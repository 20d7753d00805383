"""Continues the trace of the application in the requests of a client, if the application uses OpenTelemetry."""

import logging
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

logger = logging.getLogger(__name__)
USED: Final = "opentelemetry.trace"
"""Without this module no span can be active, so it is never imported here."""


def add_trace_context(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers with those that continue the current trace. A header of the application takes precedence."""
    if USED not in sys.modules:
        return headers
    inject = _load_inject()
    if inject is None:
        return headers
    carrier: dict[str, str] = {}
    inject(carrier)
    if not carrier:
        return headers
    given = {name.lower() for name in headers}
    return {**headers, **{name: value for name, value in carrier.items() if name.lower() not in given}}


@cache
def _load_inject() -> Any:
    """Return the function of OpenTelemetry that writes the current trace into headers; None if it cannot work."""
    try:
        from opentelemetry.propagate import inject
    except (ImportError, ValueError) as error:  # a ValueError is an unknown name in OTEL_PROPAGATORS
        logger.warning("requests do not continue traces, because OpenTelemetry cannot propagate them: %s", error)
        return None
    return inject
