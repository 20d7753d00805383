"""How Spark reads the log: pages of Arrow batches, split into ranges, with filters and typed columns."""
