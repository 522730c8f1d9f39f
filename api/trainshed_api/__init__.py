"""The contract between users, app and controller: what a TrainingRun is and what a run says.

Here live the model of the resource, the one loader of its files, its identity (spec hash), the
names that more than one package uses, and the records and events a run leaves. Imports the standard
library, pydantic and yaml. No ray, no torch, no Kubernetes client; no I/O but reading a named file.
"""
