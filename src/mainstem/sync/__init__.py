"""The sync protocol over WebSocket: events in partitions, one global order, offline-first clients."""
