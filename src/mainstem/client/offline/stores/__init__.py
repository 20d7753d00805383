"""The stores of an offline client, for its drafts and its copy of the log: the contract, memory, and SQLite."""
