"""What is known of a run while it goes: the one actor beside the workers, and its client.

Pure: hub, reports. Never here: decisions about a run; those are its driver's and its workers'.
"""
