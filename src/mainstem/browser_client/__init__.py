"""The JavaScript client as the server serves it. `make client` builds it from js/."""
