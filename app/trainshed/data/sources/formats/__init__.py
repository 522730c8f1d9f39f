"""The formats of files that are streamed: how each is cut into tasks, and read.

What a task reads is decided by names and sizes alone, so that it is the same in every epoch and on
any cluster. Libraries that only one format needs are imported where it is read.
"""
