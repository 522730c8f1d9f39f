"""A run put together on Ray: the cluster that it joins, the trainer, and what Ray Train calls.

With `ray_seams` the only importer of what is private to Ray; what a callback decides lies below.
`failures` and `shards` are light: Ray Train's controller imports them, and torch takes seconds.
"""
