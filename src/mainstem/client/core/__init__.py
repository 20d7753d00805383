"""What both streams clients share, without I/O: requests, replies, retries, producer state, and results."""
