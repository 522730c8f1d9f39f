"""Which rows, in which order, for which rank. Pure: no I/O, clock or randomness of its own.

An epoch is replayed from its number: no cache, placement or counter of Ray's takes part.
"""
