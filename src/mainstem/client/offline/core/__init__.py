"""The parts of the offline client without I/O: the session, the queue of drafts, the records, and the errors."""
