"""The consistency rules of a store. Each reads a snapshot, so the same rules check SQLite and PostgreSQL."""
