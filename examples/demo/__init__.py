"""A tour in about a minute: a server, traffic over both protocols, four pipeline jobs, and a report with charts."""
