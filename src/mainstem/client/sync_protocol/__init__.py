"""The client side of the sync protocol, without I/O. The offline client, the command line and the Spark sink use it."""
