"""The process of a training function: `trainshed.current()` and everything behind it.

Pure: meter, pace. Collectives: agreement, evaluation. Not: starting Ray, reading files of rows,
or the layout of checkpoints.
"""
