"""Runs as jobs of any Ray cluster, through its Jobs API.

Lives here: who is asked and with which token, the calls, ids, following a job's log. Never here:
training; what a job does is `trainshed.attempt.begin`.
"""
