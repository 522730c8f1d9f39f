"""From files to batches: a pure plan, one reader, one feeder, one iterator a rank.

Pure (no I/O, clock or randomness of their own): order, randomness, rows, schedule, split, plan.
Ray Data is imported by datasets, execution, feeder and shard alone. Nothing here knows models or
checkpoints.
"""
