"""What can go wrong with a cluster, as one message for people."""


class ClusterError(Exception):
    """The cluster cannot be had, or a command on it failed; the message says why and what to do."""
