"""One program for each published figure; RESULTS.md has the figures.

Lives here: what measures. `plain` is what we are measured against, `ours` the training functions of
our side. Never here: anything that a run needs.
"""
