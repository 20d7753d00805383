from tests.streams_client.servers import faults, follower, path, server, streams, twins

__all__ = ["faults", "follower", "path", "server", "streams", "twins"]
