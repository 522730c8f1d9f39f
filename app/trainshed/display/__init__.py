"""Show a run to whoever started it: to a person on a terminal, to a program through a pipe.

Lives here: turning progress events into what is seen. Never here: measuring, files, Ray; a display
learns everything from the events it is given.
"""
