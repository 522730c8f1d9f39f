"""How rows are read and transformed: Parquet to columns, and the user's functions over them.

The same on a data node, in a worker and in a check. Never here: Ray, torch.
"""
