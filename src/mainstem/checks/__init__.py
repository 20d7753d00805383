"""What a store promises, as rules that read a snapshot of it: the same for SQLite and PostgreSQL."""
