"""The chart as Helm renders it, on a machine that has neither a cluster nor KubeRay's chart."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "trainshed"
TIMEOUT_SECONDS = 60
# Said because a Helm that was built from its module takes the cluster for 1.20.
KUBERNETES = "--kube-version=1.35.4"


class HelmError(Exception):
    """Helm refused; the text is what it said."""


def prepare_chart(folder: Path, subchart: Path | None = None) -> Path:
    """Return a copy of the chart under `folder` with its dependency in place.

    Args:
        folder: where to put it.
        subchart: stands for KubeRay's chart; None for one without any object, which is enough
            wherever KubeRay is switched off.
    """
    copy = folder / CHART.name
    shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("charts"))
    [dependency] = yaml.safe_load((CHART / "Chart.yaml").read_text())["dependencies"]
    place = copy / "charts" / dependency["name"]
    if subchart:
        shutil.copytree(subchart, place)
    else:
        place.mkdir(parents=True)
        empty = {"apiVersion": "v2", "name": dependency["name"], "version": dependency["version"]}
        (place / "Chart.yaml").write_text(yaml.safe_dump(empty))
    return copy


def render_chart(
    helm: str,
    chart: Path,
    *options: str,
    release: str = "trainshed",
    namespace: str = "trainshed",
    values: Sequence[Path] = (),
) -> str:
    """Return what `helm template` prints.

    Raises:
        HelmError: when it refuses.
    """
    files = [word for file in values for word in ("--values", str(file))]
    done = subprocess.run(
        [
            *(helm, "template", release, str(chart), KUBERNETES, "--namespace", namespace),
            *files,
            *options,
        ],
        # It ends soon, with 80 MB: collecting garbage would be a third of its time.
        env={**os.environ, "GOGC": "off"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise HelmError(done.stderr.strip())
    return done.stdout
