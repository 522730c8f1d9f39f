"""The operator: creates a RayJob for each attempt of a TrainingRun, and reports its status.

Pure (no I/O, clock, environment or randomness): model, capacity, admission, facts, decide, judge,
failure_policy, project, status, render. Edges: operator (the only importer of kopf), connection
(the only importer of the Kubernetes client), jobs (Ray's Jobs API), progress (what drivers post).
Never ray, torch or trainshed.
"""
