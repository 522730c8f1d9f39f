"""Why a run failed, waits or is slow: a chain of links from its file to its training.

`chain` has what all runs share, `stored_run` reads the folder of a run, `cluster_run` and `pods`
the objects of a run in Kubernetes. What decides takes facts and returns a Diagnosis, without I/O.
"""
