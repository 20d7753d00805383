"""For tests, of Mainstem and of what is built on it: a store's contract, a clock, a failing disk, a real server.

Only `plugin` needs pytest. None of this is imported by a server.
"""
