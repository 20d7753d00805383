"""The parts that both streams clients share, without I/O: operations, retries, producer state, and results."""
