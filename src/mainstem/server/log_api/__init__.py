"""The log over HTTP: the messages of both protocols as one ordered table, for Spark and other readers."""
