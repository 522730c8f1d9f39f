"""A stand-in for KubeRay's operator, for tests: RayCluster to Pods, RayJob to Ray's Jobs API.

README.md lists each behaviour that is imitated, with its source. Nothing of the product imports
this package, and it imports nothing of the product but Kubernetes quantities.
"""
