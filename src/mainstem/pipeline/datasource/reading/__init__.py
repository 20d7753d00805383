"""What the readers of the format decide: where to start, how much to read at once, how to divide it, which schema."""
