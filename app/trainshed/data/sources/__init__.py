"""Reads and transforms rows: files to columns, and the user's functions over them.

The same on a data node, in a worker and in a check. Not: Ray, torch.
"""
