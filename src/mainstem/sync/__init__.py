"""The sync protocol over WebSocket: events in partitions, in one global order, for offline-first clients."""
