"""The audit job: tasks examine ranges of the log, and rules compare their findings with the server's indexes."""
