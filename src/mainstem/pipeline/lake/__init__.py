"""Delta tables and files that jobs read and write: Parquet, NDJSON and CSV."""
