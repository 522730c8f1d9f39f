"""The operator: TrainingRuns become RayJobs, one an attempt, and are told how they do.

Pure (no I/O, clock, environment or randomness): model, capacity, admission, judge, status, render,
reconcile. Edges: handlers (the only importer of kopf), cluster (the only importer of the Kubernetes
client), jobs (Ray's Jobs API), progress (what drivers post). Never ray, torch or trainshed.
"""
