"""Puts the stand-in's chart where KubeRay's own is expected: `python -m tests.kuberay.chart`."""

import argparse
import shutil
from pathlib import Path

CHART = Path(__file__).with_name("chart")
CRD_FILES = ("rayclusters.json", "rayjobs.json")


def place_chart(parent: Path, crds: Path | None) -> Path:
    """Copy the chart to PARENT/charts/kuberay-operator, with KubeRay's CRDs in it; return it.

    The CRDs are KubeRay's and no part of this repository; None is for a cluster that has them.
    """
    target = parent / "charts" / "kuberay-operator"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(CHART, target)
    if crds is not None:
        (target / "crds").mkdir()
        for name in CRD_FILES:
            shutil.copy(crds / name, target / "crds" / name)
    return target


def main() -> None:
    """Place the chart as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.kuberay.chart", description=__doc__)
    parser.add_argument("parent", type=Path, help="the chart that depends on kuberay-operator")
    parser.add_argument("--crds", type=Path, help=f"a folder with {' and '.join(CRD_FILES)}")
    given = parser.parse_args()
    print(place_chart(given.parent, given.crds))


if __name__ == "__main__":
    main()
