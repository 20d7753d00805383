"""What a subscription is and what its commands do, without a clock, sockets or threads."""
