"""Log lines on standard error: one event per line, as text for people or as JSON for machines."""

import logging
import sys

import msgspec

from mainstem.escaping import escape_line
from mainstem.server.settings import Settings
from mainstem.timestamps import format_time


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": format_time(int(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Escapes control characters: names chosen by strangers must not start a new line or control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escape_line(record.message)
        return super().formatMessage(record)


def configure_logs(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter("%(asctime)s %(levelname)-8s %(name)s  %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
