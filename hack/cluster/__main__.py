"""A local Kubernetes for development and tests: `make cluster` and its sisters.

python -m hack.cluster up | down | load | diagnose NAMESPACE | kubectl ARGUMENTS | helm ARGUMENTS
"""

import argparse
import os
import sys
import time
from pathlib import Path

from hack.cluster.bare import BareCluster
from hack.cluster.diagnosis import diagnose
from hack.cluster.failure import ClusterError
from hack.cluster.kind import KindCluster, is_docker_there
from hack.tools.finder import ToolMissingError

DRIVERS = ("kind", "bare")
Cluster = BareCluster | KindCluster


def choose_cluster(name: str, driver: str | None) -> Cluster:
    """Return the cluster of that name: in Docker where Docker is, else of processes."""
    if driver is None:
        driver = "kind" if is_docker_there() else "bare"
    if driver not in DRIVERS:
        raise ClusterError(f"driver {driver!r} is none of {' and '.join(DRIVERS)}")
    return KindCluster(name) if driver == "kind" else BareCluster(name)


def main(arguments: list[str]) -> int:
    """Do what the command line says; a failure is one message."""
    parser = argparse.ArgumentParser(prog="python -m hack.cluster", description=__doc__)
    parser.add_argument("--name", default=os.environ.get("TRAINSHED_CLUSTER", "trainshed"))
    parser.add_argument("--driver", choices=DRIVERS, default=os.environ.get("TRAINSHED_DRIVER"))
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="get what it is made of; `up` does that, too")
    verbs.add_parser("up", help="bring it up; harmless when it is")
    verbs.add_parser("down", help="take it down with all that it kept")
    load = verbs.add_parser("load", help="give its node an image")
    source = load.add_mutually_exclusive_group(required=True)
    source.add_argument("--image", help="a name that Docker or buildah knows")
    source.add_argument("--archive", type=Path, help="an OCI or Docker archive; - reads it")
    diagnosed = verbs.add_parser("diagnose", help="say which Pods are not well, why, what to do")
    diagnosed.add_argument("namespace")
    for tool in ("kubectl", "helm"):
        verbs.add_parser(tool, help=f"run {tool} on it", add_help=False)
    chosen, rest = parser.parse_known_args(arguments)
    if rest and chosen.verb not in ("kubectl", "helm"):
        parser.error(f"not understood: {' '.join(rest)}")
    try:
        _do(choose_cluster(chosen.name, chosen.driver), chosen, rest)
    except (ClusterError, ToolMissingError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def _do(cluster: Cluster, chosen: argparse.Namespace, rest: list[str]) -> None:
    start = time.monotonic()
    match chosen.verb:
        case "prepare":
            cluster.prepare()
        case "up":
            state = "is up" if cluster.up() else "was up already"
            print(f"{cluster.name} {state} ({time.monotonic() - start:.1f} s)")
            print("Ask it: .venv/bin/python -m hack.cluster kubectl get pods --all-namespaces")
        case "down":
            cluster.down()
        case "load" if chosen.image:
            cluster.load_image(chosen.image)
        case "load":
            cluster.load(chosen.archive)
        case "diagnose":
            print(diagnose(cluster.client, chosen.namespace))
        case tool:
            command = cluster.client.command(tool, *rest)
            os.execvpe(command[0], command, cluster.client.environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
