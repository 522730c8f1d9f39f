"""The chart as a dependency of another, and for who has no rights on the cluster."""

import shutil
from pathlib import Path

import yaml

from tests.chart.rendering import VALUES_FILES, Renderer, name_of, of_kind

LAPTOP = VALUES_FILES["laptop-values.yaml"]
NO_RIGHTS = ("--set=crds.install=false,rbac.create=false,kuberay-operator.enabled=false",)
OF_THE_PLATFORM = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PriorityClass",
    "Role",
    "RoleBinding",
}


def test_a_parent_chart_renders_what_the_chart_does_alone(
    renderer: Renderer, tmp_path: Path
) -> None:
    parent = tmp_path / "platform"
    shutil.copytree(renderer.chart, parent / "charts" / "trainshed")
    dependency = {"name": "trainshed", "version": "0.1.0", "condition": "trainshed.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    (parent / "Chart.yaml").write_text(yaml.safe_dump({**chart, "dependencies": [dependency]}))
    own = yaml.safe_load(LAPTOP.read_text()) or {}
    shared = {"global": {"imageRegistry": "mirror.example.com", "team": "ml"}}
    operator = {"kuberay-operator": {"enabled": False}}
    (parent / "values.yaml").write_text(
        yaml.safe_dump({**shared, "trainshed": {**own, **operator, "enabled": True}})
    )

    below = Renderer(renderer.helm, parent).render(None, release="platform")
    alone = renderer.render(
        LAPTOP,
        "--set=global.imageRegistry=mirror.example.com,kuberay-operator.enabled=false",
        release="platform",
    )

    assert sorted(below, key=name_of) == sorted(alone, key=name_of)


def test_a_namespace_admin_installs_nothing_of_the_clusters(renderer: Renderer) -> None:
    objects = renderer.render(LAPTOP, *NO_RIGHTS)

    assert {str(each["kind"]) for each in objects}.isdisjoint(OF_THE_PLATFORM)


def test_what_the_platform_applies_is_every_role_of_the_release(renderer: Renderer) -> None:
    whole = renderer.render(LAPTOP)
    shown = renderer.render(LAPTOP, "--show-only=templates/roles.yaml")

    roles = of_kind(whole, "Role") + of_kind(whole, "RoleBinding")
    assert sorted(map(name_of, shown)) == sorted(map(name_of, roles))
