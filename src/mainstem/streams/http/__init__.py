"""The HTTP handlers of streams."""
