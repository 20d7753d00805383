"""The sync protocol without I/O: names, messages, canonical equality, sessions, and submit requests."""
