"""The server: settings, the ASGI app, its endpoints, logging, and running it."""

from mainstem.server.app import Mainstem, create_app
from mainstem.server.settings import Settings

__all__ = ["Mainstem", "Settings", "create_app"]
