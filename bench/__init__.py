"""A side-by-side benchmark of Mainstem and other Durable Streams servers. Run it with `python -m bench`."""
