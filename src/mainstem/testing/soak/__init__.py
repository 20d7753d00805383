"""The soak: one server under everything at once, for as long as one likes, and a look at whether it grows.

Run it with `python -m mainstem.testing.soak --minutes 30`. It ends with a verdict.
"""
