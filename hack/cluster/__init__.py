"""A real Kubernetes on this machine, for tests and for `make cluster`.

It knows nothing of Trainshed: what is installed on the cluster is for others to say.
"""
