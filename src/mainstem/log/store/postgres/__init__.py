"""The store for many nodes, on PostgreSQL. asyncpg is an extra, so `store.py` is imported only when it is wanted."""
