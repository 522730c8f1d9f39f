"""Decides which rows each rank gets, in which order. Pure: no I/O, clock or hidden randomness.

The order of an epoch follows from its number: no cache, placement or counter of Ray matters.
"""
