"""The process that owns an attempt, from its claim to its result.

Lives here: what is claimed and where it goes on, Ray's start, looking how it does, passing a
stop on, telling the controller, the result. Never here: training, or what Ray does inside.
"""
