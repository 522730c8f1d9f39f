"""A world in one process: the real controller in it, and the rest played by seed in virtual time.

Nothing here starts a process, opens a socket or looks at a wall clock: a seed replays exactly.
"""
