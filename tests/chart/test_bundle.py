"""What the chart and the rest of the repository say of the same thing."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import yaml

from hack.chart.helm import CHART, ROOT, prepare_chart
from hack.chart.manifest import render_manifest
from hack.chart.values import read_values
from tests.bundle.repository import pyproject
from tests.chart.rendering import VALUES_FILES, Renderer, at, name_of, of_kind, rows, table, text

METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
LOCK = yaml.safe_load((CHART / "Chart.lock").read_text())
STAND_IN = ROOT / "tests" / "kuberay" / "chart"
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def test_one_version_everywhere() -> None:
    assert METADATA["version"] == METADATA["appVersion"] == pyproject()["version"]


def test_the_image_is_of_the_charts_version(renderer: Renderer) -> None:
    [cluster] = of_kind(renderer.render(), "RayCluster")
    [container] = rows(cluster, "spec", "headGroupSpec", "template", "spec", "containers")

    assert container["image"] == f"ghcr.io/trainshed/app:{METADATA['appVersion']}"


def test_ray_is_the_one_in_the_image(renderer: Renderer) -> None:
    locked = (ROOT / "images" / "app" / "requirements.txt").read_text()
    [version] = re.findall(r"^ray(?:\[[a-z,]*\])?==([\d.]+)", locked, re.MULTILINE)
    [cluster] = of_kind(renderer.render(), "RayCluster")

    assert DEFAULTS["ray"]["version"] == version
    assert text(cluster, "spec", "rayVersion") == version


def test_kuberay_is_one_version_in_every_text() -> None:
    [dependency] = METADATA["dependencies"]
    for path in (ROOT / "docs" / "install.md", ROOT / "hack" / "chart" / "manifest.py"):
        named = re.findall(
            r"(?:ref=v|kuberay-operator --version |kuberay-operator-)([\d.]+\d)", path.read_text()
        )
        assert set(named) == {dependency["version"]}, path.name


def test_the_dependency_is_switched_by_its_own_name() -> None:
    [dependency] = METADATA["dependencies"]

    assert dependency["condition"] == f"{dependency['name']}.enabled"
    assert "alias" not in dependency


def test_the_lock_is_that_of_the_chart() -> None:
    """Helm compares this digest; `helm dependency update` rewrites a lock with another one."""
    [wanted], [locked] = METADATA["dependencies"], LOCK["dependencies"]
    order = ("name", "version", "repository", "condition")
    request, lock = ([{key: one[key] for key in order if key in one}] for one in (wanted, locked))
    digest = hashlib.sha256(json.dumps([request, lock], separators=(",", ":")).encode())

    assert LOCK["digest"] == f"sha256:{digest.hexdigest()}"
    assert wanted["version"] == locked["version"]


def test_archives_of_dependencies_stay_out_of_git() -> None:
    archive = CHART / "charts" / "kuberay-operator-1.7.0.tgz"

    ignored = subprocess.run(
        ["git", "check-ignore", "--quiet", str(archive)], cwd=ROOT, check=False, timeout=30
    )

    assert ignored.returncode == 0


def test_the_manifest_is_what_the_chart_renders(helm: str) -> None:
    manifest = ROOT / "manifests" / "install.yaml"

    assert manifest.read_text() == render_manifest(), "run `make generate`"


def test_the_manifest_brings_its_namespace_and_no_hook() -> None:
    objects = list(yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text()))

    assert [text(thing, "metadata", "name") for thing in of_kind(objects, "Namespace")] == [
        "trainshed"
    ]
    assert not [
        thing for thing in objects if "helm.sh/hook" in table(thing, "metadata", "annotations")
    ]


def test_who_would_delete_by_the_manifest_is_told_what_else_would_go() -> None:
    manifest = (ROOT / "manifests" / "install.yaml").read_text()
    header, _, objects = manifest.partition("\n---\n")

    for kind in ("Namespace", "PersistentVolumeClaim", "CustomResourceDefinition"):
        assert f"\nkind: {kind}\n" in f"\n{objects}"
    for text_of in (header, (ROOT / "docs" / "install.md").read_text()):
        assert "kubectl delete -f" in text_of
        assert "the kind TrainingRun with" in text_of


def test_the_way_around_the_hook_is_in_the_docs() -> None:
    docs = (ROOT / "docs" / "install.md").read_text()

    assert "helm uninstall trainshed --namespace trainshed --no-hooks" in docs
    assert "kubectl -n trainshed logs job/trainshed-uninstall" in docs
    assert "`controller.uninstallSeconds`" in docs


def test_every_value_is_read_by_a_template() -> None:
    templates = "".join(path.read_text() for path in sorted((CHART / "templates").rglob("*.*")))
    # Taken as they are, or read by KubeRay's own chart.
    whole = {"groupDefaults", "groups", "resources", "labels", "reconcileConcurrency"}

    for value in read_values(CHART / "values.yaml"):
        keys = value.path.split(".")
        key = next((key for key in reversed(keys) if key not in {"cpu", "memory", "gpu"}), keys[-1])
        if key not in whole | {"requests", "limits"}:
            assert re.search(rf"[.\"]{re.escape(key)}\b", templates), value.path


def test_uninstalling_leaves_the_claim(renderer: Renderer) -> None:
    [claim] = of_kind(renderer.render(), "PersistentVolumeClaim")

    assert at(claim, "metadata", "annotations", "helm.sh/resource-policy") == "keep"
    # The release's name is no part of it: a later release finds it again.
    assert text(claim, "metadata", "name") == "trainshed-storage"
    assert claim == {
        **of_kind(renderer.render(None, release="blue"), "PersistentVolumeClaim")[0],
        "metadata": claim["metadata"],
    }


def test_the_job_with_the_digits_gets_another_name_when_it_changes(
    renderer: Renderer, tmp_path: Path
) -> None:
    """A Job cannot be changed: under its old name an upgrade would fail."""

    def job_name(values: Path | None) -> str:
        names = [text(job, "metadata", "name") for job in of_kind(renderer.render(values), "Job")]
        [name] = [name for name in names if name.startswith("trainshed-digits-")]
        return name

    assert job_name(None) == job_name(VALUES_FILES["open-network-values.yaml"])
    assert job_name(None) != job_name(VALUES_FILES["airgapped-values.yaml"])


def test_kuberay_comes_along_unless_the_cluster_has_it(
    helm: str, tmp_path: Path, renderer: Renderer
) -> None:
    """By the condition of the dependency, with the stand-in in its place."""
    chart = Renderer(helm, prepare_chart(tmp_path, STAND_IN))

    [operator, _] = sorted(of_kind(chart.render(), "Deployment"), key=name_of)
    without = chart.render(None, "--set=kuberay-operator.enabled=false")

    assert name_of(operator) == "Deployment/kuberay-operator"
    # The policy of the head and the release's values mean this Pod and this container.
    template = table(operator, "spec", "template")
    assert at(template, "metadata", "labels", "app.kubernetes.io/component") == "kuberay-operator"
    [container] = rows(template, "spec", "containers")
    assert at(container, "resources", "limits", "cpu") == "1"
    assert without == renderer.render(None, "--set=kuberay-operator.enabled=false")
