"""The store for many nodes: PostgreSQL. asyncpg is an optional dependency, so `store.py` is imported on demand."""
