"""What surrounds a training function in its own process: `trainshed.current()` and all behind it.

Pure: meter, pace. Collectives: agreement, evaluation. Never here: starting Ray, reading files of
rows, or how a checkpoint lies on storage.
"""
