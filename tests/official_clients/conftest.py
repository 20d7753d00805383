from tests.support.server_threads import client, connect_to, hasty, path, server, start_thread

__all__ = ["client", "connect_to", "hasty", "path", "server", "start_thread"]
