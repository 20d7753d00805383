"""The sync protocol without I/O: messages, requests, replies, sessions, and the rules for events and partitions."""
