"""Reading streams: pages, live reads, and sets of streams."""
