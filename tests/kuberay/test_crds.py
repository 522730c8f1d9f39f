"""Our two CRDs, which stand in for KubeRay's, hold what is written and read here, and no more."""

import json
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, JsonValue

from tests.control_plane.plugin import CRDS_OF_OURS, CRDS_VARIABLE, find_kuberay_crds
from tests.kuberay.chart import CRD_FILES
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest

MODELS: dict[str, type[BaseModel]] = {"rayclusters.json": RayCluster, "rayjobs.json": RayJob}
# What a schema says of a field: more than that KubeRay's may say and ours need not.
SAID = ("type", "format", "default", "x-kubernetes-int-or-string")
# What is the same where both say it.
LIMITS = ("enum", "required", "minimum", "pattern")
# What our chart writes, so that a misspelt one is refused, and nobody here reads.
WRITTEN = {
    ".autoscalerOptions": (
        "idleTimeoutSeconds",
        "upscalingMode",
        "imagePullPolicy",
        "resources",
        "securityContext",
        "volumeMounts",
    ),
    ".upgradeStrategy": ("type",),
}


def at(value: JsonValue, *path: str) -> Manifest:
    """Return the mapping at a path, empty where there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def read(file: Path) -> Manifest:
    """Return what a CRD says of its kind, and the schema of its only version that counts."""
    spec = at(json.loads(file.read_text()), "spec")
    versions = spec.pop("versions")
    assert isinstance(versions, list)
    [version] = [each for each in versions if isinstance(each, dict) and each["name"] == "v1"]
    named = {key: spec[key] for key in ("group", "names", "scope")}
    served = {key: version[key] for key in ("served", "storage", "subresources")}
    return {**named, **served, "schema": at(version, "schema", "openAPIV3Schema")}


def fields_of(schema: JsonValue, path: str = "") -> dict[str, Manifest]:
    """Return the schema of every field by its path, those of lists and maps included."""
    found: dict[str, Manifest] = {}
    for name, field in at(schema, "properties").items():
        assert isinstance(field, dict)
        here = f"{path}.{name}"
        found |= {here: field} | fields_of(field, here) | fields_of(field.get("items"), here)
    return found


def names_of(model: type[BaseModel], path: str = "") -> set[str]:
    """Return the path of every field of a model that our code has a name for."""
    found = set()
    for name, field in model.model_fields.items():
        here = f"{path}.{field.alias or name}"
        written = next((names for end, names in WRITTEN.items() if here.endswith(end)), ())
        found |= {here, *(f"{here}.{each}" for each in written)}
        for kind in (field.annotation, *get_args(field.annotation)):
            is_ours = isinstance(kind, type) and issubclass(kind, BaseModel)
            if is_ours and not here.endswith((".template", ".metadata")):
                found |= names_of(kind, here)
    return found


@pytest.mark.parametrize("name", CRD_FILES)
def test_every_field_that_is_written_or_read_is_in_the_schema_and_no_other(name: str) -> None:
    assert set(fields_of(read(CRDS_OF_OURS / name)["schema"])) == names_of(MODELS[name])


@pytest.mark.parametrize("name", CRD_FILES)
def test_a_field_is_what_kuberays_own_schema_says_where_that_is_at_hand(name: str) -> None:
    [file] = [file for file in find_kuberay_crds() if file.name == name]
    if file.parent == CRDS_OF_OURS:
        pytest.skip(f"KubeRay's own CRDs are not at hand: {CRDS_VARIABLE} names their folder")
    ours, theirs = read(CRDS_OF_OURS / name), read(file)
    ours_of, theirs_of = fields_of(ours.pop("schema")), fields_of(theirs.pop("schema"))

    assert ours == theirs
    for path, field in ours_of.items():
        assert path in theirs_of, path
        for word in SAID:
            assert field.get(word) == theirs_of[path].get(word), (path, word)
        assert_limits(path, field, theirs_of[path])
        assert_limits(path, at(field, "items"), at(theirs_of[path], "items"))


def assert_limits(path: str, ours: Manifest, theirs: Manifest) -> None:
    """Where both say what a field may be, they say the same."""
    for word in LIMITS:
        if word in ours and word in theirs:
            assert ours[word] == theirs[word], (path, word)


def test_a_run_has_the_cluster_that_a_ray_cluster_has() -> None:
    cluster, job = (at(read(CRDS_OF_OURS / name)["schema"], "properties") for name in CRD_FILES)

    assert at(job, "spec", "properties", "rayClusterSpec") == cluster["spec"]
    assert at(job, "status", "properties", "rayClusterStatus") == cluster["status"]


def test_the_folder_that_a_user_names_is_the_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CRDS_VARIABLE, str(tmp_path))
    (tmp_path / "rayclusters.json").touch()
    with pytest.raises(pytest.UsageError, match=r"TRAINSHED_KUBERAY_CRDS: .* has no rayjobs\.json"):
        find_kuberay_crds()

    (tmp_path / "rayjobs.json").touch()
    assert [file.parent for file in find_kuberay_crds()] == [tmp_path, tmp_path]
