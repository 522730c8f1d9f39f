"""The process of a training function: `trainshed.current()` and everything behind it.

Pure: phase_timer. Collectives: step_sync, evaluation. Other packages start Ray, read files of rows,
and lay out checkpoints.
"""
