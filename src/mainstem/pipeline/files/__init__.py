"""Files that jobs read and write: Parquet, Delta, NDJSON and CSV."""
