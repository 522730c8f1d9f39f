"""Rows as a person handles them: looked at, counted, summed up, written as parquet.

Lives here: what SOURCE of a command means, values as text, counting, shuffling, writing. Never
here: Ray, which would take longer to start than most of this, but in `made`, whose rows are made by
nothing else; how files are read is `data/sources`'s.
"""
