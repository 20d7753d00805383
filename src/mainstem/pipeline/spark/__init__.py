"""Starting Spark: the session, the Java runtime, the class archive, and the master."""
