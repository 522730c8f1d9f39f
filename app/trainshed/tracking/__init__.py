"""Experiment trackers: the driver logs a run to TensorBoard, MLflow and Weights & Biases.

One module for each tracker, imported only by runs that name it. Nothing here may end a run.
"""
