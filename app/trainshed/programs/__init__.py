"""Built-in training functions: what a TrainingRun can train without a line of Python.

Each program is a training function of Ray's own shape and uses only what every
training function may use: `trainshed.current()` and Ray Train's public functions.
Nothing here reads files, starts Ray or knows how a run is resumed.
"""
