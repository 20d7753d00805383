"""The lake: Delta tables of the log, and the file formats of export and import."""
