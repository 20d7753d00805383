from tests.support.server_threads import client, clocked, connect_to, hasty, path, server, start_thread

__all__ = ["client", "clocked", "connect_to", "hasty", "path", "server", "start_thread"]
