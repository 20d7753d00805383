"""Metrics: what the server counts and measures, and the formats in which monitoring systems read it."""
