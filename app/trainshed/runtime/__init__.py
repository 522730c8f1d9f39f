"""What runs around a training function: in each worker, and in the one coordinator actor.

Pure: meter, hub, pace. Files and torch state: checkpoint, state. Collectives: control. Nothing here
starts Ray (launch does) or reads datasets (data does).
"""
