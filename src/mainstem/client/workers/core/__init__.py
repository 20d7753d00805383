"""The decisions of workers and the verification of webhooks, without a clock, sockets or threads."""
