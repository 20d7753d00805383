"""How the log is audited: tasks examine ranges of it, and rules compare what they found with the server's indexes."""
