"""How Spark writes the log: tasks stage their rows as files, and the driver sends them as a producer."""
