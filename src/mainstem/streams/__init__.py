"""Durable Streams over HTTP: append-only streams by URL, on the commit log."""
