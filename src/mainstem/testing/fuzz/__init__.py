"""Fuzzing of every parser of Mainstem, and of a whole server: `python -m mainstem.testing.fuzz --help`.

A target turns bytes into a call. Only documented errors may come out of it, and where something else knows the right
result, the two must agree. The tests replay a corpus and a fixed number of mutated inputs; atheris, if it is installed,
fuzzes for the given time and adds every input that reaches new code to the corpus.
"""
