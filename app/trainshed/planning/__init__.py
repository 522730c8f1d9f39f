"""All that can be said of a run before Ray starts: its mistakes, its needs, what it will do.

Nothing here starts anything or writes to storage.
"""
