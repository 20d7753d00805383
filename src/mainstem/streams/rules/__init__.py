"""The rules of the Durable Streams protocol as pure functions."""
