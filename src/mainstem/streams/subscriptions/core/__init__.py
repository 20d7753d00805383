"""The states and commands of subscriptions, without a clock, sockets or threads."""
