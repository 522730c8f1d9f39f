"""How planned rows become a device's batches, by Ray Data's tasks or in the worker itself.

Ray Data is imported by datasets and feeder alone, and by the seam that both stand on.
"""
