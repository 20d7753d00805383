"""The offline client without I/O: the session, the queue of drafts, the records of the store, and the errors."""
