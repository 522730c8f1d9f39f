"""Predictions of trained runs: find a checkpoint, load its model, read rows, write predictions.

Nothing here trains or is imported by a run. A framework has one module with a class that satisfies
`predictor.Predictor`. Only `ray_prediction` uses Ray.
"""
