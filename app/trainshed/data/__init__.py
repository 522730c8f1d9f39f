"""From files to batches: `sampler` plans, `sources` reads, `loader` brings rows to a device.

Nothing here knows models or checkpoints.
"""
