"""Tools for tests of Mainstem and of programs built on it: a store contract, a clock, a failing disk, a real server, a
checker of histories, and torture.

Only `plugin` needs pytest. A server imports nothing from here.
"""
