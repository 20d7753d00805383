"""Mainstem: one global, ordered, durable commit log, served as Durable Streams over HTTP."""

__version__ = "0.1.0"
