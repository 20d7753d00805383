"""The client side of the sync protocol, without I/O: the offline client, the command line and the Spark sink use it."""
