"""Stops runs in many ways and judges what they did, without asking the product's own records.

`draw` and `judge` are pure. `trial` starts, stops and restarts runs. `observed` and `programs` are
imported inside these runs; `catalogue` has the spec of each program.
"""
