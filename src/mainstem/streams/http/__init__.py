"""Streams over HTTP: requests in, responses out."""
