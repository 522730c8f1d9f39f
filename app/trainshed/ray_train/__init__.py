"""A run put together on Ray: the cluster that it joins, the trainer, and what Ray Train calls.

Only this package and `ray_compat` import private parts of Ray. Callbacks call the packages below.
Ray Train's controller imports `lost_workers` and `dataset_shards`. Neither imports torch, which
takes seconds.
"""
