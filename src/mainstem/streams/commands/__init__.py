"""Every change of a stream, as a Command on the log."""
