"""Turns planned rows into a device's batches, with Ray Data's tasks or in the worker itself.

Only the modules about Ray datasets and the data server import Ray Data.
"""
