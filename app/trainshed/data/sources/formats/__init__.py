"""The streaming formats of files: how each is split into tasks, and read.

File names and sizes alone decide what a task reads, so it is the same in every epoch and on any
cluster. Libraries of a single format are imported when it is read.
"""
