"""Commands that change streams."""
