"""The whole server on simulated time, disks and connections, with faults that a seed chooses.

`python -m mainstem.testing.simulation --seeds 1..500` runs it.
"""
