"""OpenTelemetry, if the standard `OTEL_*` variables ask for it. Without that, nothing of it is imported.

Only the variables that the OpenTelemetry SDK does not interpret are read here.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from mainstem import limits
from mainstem.server.proxies import Proxies

if TYPE_CHECKING:
    from mainstem.server.telemetry.otlp import Telemetry

logger = logging.getLogger(__name__)
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
EXPORTERS: Final = frozenset(["otlp", "none"])
PROTOCOL: Final = "http/protobuf"
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"


class Signals(NamedTuple):
    """What is exported."""

    traces: bool
    metrics: bool


def open_telemetry(
    environ: Mapping[str, str], name_route: Callable[[str, bytes, bytes], str], proxies: Proxies
) -> "Telemetry | None":
    """Return what exports traces and metrics; None if that is not configured, or not possible.

    A server whose telemetry is misconfigured still serves: that is logged, and nothing is exported.
    """
    signals = find_signals(environ)
    if not any(signals):
        return None
    try:
        from mainstem.server.telemetry.otlp import Telemetry

        return Telemetry(signals, environ, name_route, proxies)
    except ModuleNotFoundError as error:
        logger.warning(
            "traces and metrics are not exported, because the package %s is missing; "
            "install it with: pip install 'mainstem[otel]'",
            error.name,
        )
    except ValueError as error:  # only the SDK knows which variable is wrong
        logger.warning("traces and metrics are not exported, because an OTEL_* variable is invalid: %s", error)
    return None


def find_signals(environ: Mapping[str, str]) -> Signals:
    """Return what to export: what has an exporter or, without that variable, an endpoint."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Signals(False, False)
    return Signals(_is_exported(environ, "TRACES"), _is_exported(environ, "METRICS"))


def _is_exported(environ: Mapping[str, str], signal: str) -> bool:
    exporter = f"OTEL_{signal}_EXPORTER"
    names = [name.strip().lower() for name in environ.get(exporter, "").split(",") if name.strip()]
    if not names:
        names = ["otlp"] if _read(environ, signal, "ENDPOINT") else []
    unknown = [name for name in names if name not in EXPORTERS]
    if unknown:
        logger.warning("%s is %s, which Mainstem does not support; use otlp or none", exporter, ",".join(unknown))
    if "otlp" not in names or "none" in names:
        return False
    protocol = _read(environ, signal, "PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL:
        logger.warning(
            "%s are not exported: OTEL_EXPORTER_OTLP_PROTOCOL is %s, and Mainstem supports only %s",
            signal.lower(),
            protocol,
            PROTOCOL,
        )
    return protocol == PROTOCOL


def _read(environ: Mapping[str, str], signal: str, name: str) -> str:
    """Return the value of an OTLP variable for a signal, or else for all signals. An empty one counts as unset."""
    return (
        environ.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}", "").strip()
        or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()
    )


def describe_collector(environ: Mapping[str, str], signal: str) -> str:
    """Return the address of the collector for log lines, without a password or a path."""
    parts = urlsplit(_read(environ, signal, "ENDPOINT") or DEFAULT_ENDPOINT)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def read_interval_s(environ: Mapping[str, str]) -> float:
    """Return how often metrics are exported."""
    text = environ.get(INTERVAL, "").strip()
    if not text:
        return limits.METRIC_EXPORT_S
    if not (text.isascii() and text.isdigit()) or int(text) < limits.METRIC_EXPORT_MS_MIN:
        logger.warning(
            "%s is %r; it must be a number of milliseconds, at least %d. Mainstem uses %d",
            INTERVAL,
            text,
            limits.METRIC_EXPORT_MS_MIN,
            int(limits.METRIC_EXPORT_S * 1000),
        )
        return limits.METRIC_EXPORT_S
    return int(text) / 1000
