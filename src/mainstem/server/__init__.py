"""Assembly: settings, the ASGI app, health, logs, and running it all."""

from mainstem.server.app import Mainstem, create_app
from mainstem.server.settings import Settings

__all__ = ["Mainstem", "Settings", "create_app"]
