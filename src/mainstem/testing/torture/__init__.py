"""Torture: real servers that are killed, stopped and disconnected while clients record everything they do.

Run it with `python -m mainstem.testing.torture --minutes 10`. It ends with a verdict about the whole history.
"""
