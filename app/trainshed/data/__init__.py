"""From files to batches: `order` plans, `read` reads, `feed` brings rows to a device.

Nothing here knows models or checkpoints.
"""
