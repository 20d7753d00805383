"""The Spark format `mainstem`: its readers, its exactly-once writers, and their options."""
