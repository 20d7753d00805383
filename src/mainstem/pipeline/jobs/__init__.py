"""The jobs over the log: each does one round, which `runner` runs once or repeats."""
