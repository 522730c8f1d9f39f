"""The state of a running attempt: one actor beside the workers, and the handle that calls it.

Pure: run_state, ray_reports. Decisions about a run belong to its driver and its workers.
"""
