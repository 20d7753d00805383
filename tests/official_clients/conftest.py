import os

# These clients are in no package registry: see the docstring of the module.
collect_ignore = [] if os.environ.get("DURABLE_STREAMS_SOURCE") else ["test_official_clients.py"]
