"""What both streams clients share, without I/O: operations and their effects, retries, producer state, and results."""
