"""The streaming formats of files: how each is split into tasks, and read.

File names and sizes alone decide what a task reads, so it is the same in every epoch and on any
cluster. Libraries of a single format are imported when it is read.

`FILES` and `TABLES` of data/sources/dataset_files.py list them. Parquet has a module of its own,
data/sources/parquet.py. docs/architecture.md says how to add a format.
"""
