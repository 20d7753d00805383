"""Where an offline client keeps its drafts and its copy of the log: the contract, in memory, and in SQLite."""
