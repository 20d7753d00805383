"""The log over HTTP: every message of both protocols as one ordered table, for Spark and other readers."""
