"""Durable Streams over HTTP: append-only streams with URLs, on top of the commit log."""
