"""What KubeRay refuses is refused, by the words that users search for."""

import pytest
from pydantic import JsonValue

from tests.kuberay.builders import make_cluster, make_cluster_spec, make_group, make_job
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest
from tests.kuberay.validation import cluster_fault, job_fault

CLUSTER_CASES: dict[str, tuple[Manifest, str]] = {
    "a token that is too new for its Ray": (
        make_cluster_spec(authOptions={"mode": "token"}, rayVersion="2.51.9"),
        "minimum Ray version is 2.52.0, got 2.51.9",
    ),
    "resources in two places": (
        make_cluster_spec(make_group(resources={"CPU": "1"}, rayStartParams={"num-cpus": "1"})),
        "should not be set in both rayStartParams and Resources for cpu group",
    ),
    "labels as a start parameter": (
        make_cluster_spec(make_group(rayStartParams={"labels": "a=b"})),
        "rayStartParams['labels'] is not supported for cpu group",
    ),
    "a restart policy under the new autoscaler": (
        make_cluster_spec(
            head={"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "r"}]}}},
            enableInTreeAutoscaling=True,
            autoscalerOptions={"version": "v2"},
        ),
        "restartPolicy for head Pod should be Never or unset when using autoscaler V2",
    ),
    "many hosts": (make_cluster_spec(make_group(numOfHosts=2)), "not imitated"),
}
JOB_CASES: dict[str, tuple[dict[str, JsonValue], str]] = {
    "suspended on a cluster of others": (
        {"suspend": True, "shutdownAfterJobFinishes": True},
        "the ClusterSelector mode doesn't support the suspend operation",
    ),
    "a selector without a name": (
        {"clusterSelector": {"ray.io/clustre": "a"}},
        "cluster name in ClusterSelector should not be empty",
    ),
    "a retry": ({"backoffLimit": 1}, "backoffLimit: not imitated"),
    "a runtime environment that is no YAML": ({"runtimeEnvYAML": "a: ["}, "RuntimeEnvYAML"),
}


@pytest.mark.parametrize(("spec", "text"), CLUSTER_CASES.values(), ids=CLUSTER_CASES)
def test_a_cluster_is_refused(spec: Manifest, text: str) -> None:
    fault = cluster_fault(RayCluster.model_validate(make_cluster(spec=spec)))
    assert fault is not None
    assert fault[0] == "InvalidRayClusterSpec"
    assert text in fault[1]


@pytest.mark.parametrize(("fields", "text"), JOB_CASES.values(), ids=JOB_CASES)
def test_a_job_is_refused(fields: dict[str, JsonValue], text: str) -> None:
    fault = job_fault(RayJob.model_validate(make_job(**fields)))  # type: ignore[arg-type]
    assert fault is not None
    assert fault[0] == "InvalidRayJobSpec"
    assert text in fault[1]


@pytest.mark.parametrize("name", ["a" * 54, "1st", "under_score", "Capital", "end-"])
def test_a_cluster_with_such_a_name_is_refused(name: str) -> None:
    fault = cluster_fault(RayCluster.model_validate(make_cluster(name)))
    assert fault is not None
    assert fault[0] == "InvalidRayClusterMetadata"


def test_a_cluster_of_a_job_has_no_strategy_of_upgrades() -> None:
    manifest = make_cluster(spec=make_cluster_spec(upgradeStrategy={"type": "Recreate"}))
    own = RayCluster.model_validate(manifest)
    assert cluster_fault(own) is None
    own.metadata.labels["ray.io/originated-from-crd"] = "RayJob"
    fault = cluster_fault(own)
    assert fault is not None
    assert "upgradeStrategy cannot be set when RayCluster is created by RayJob" in fault[1]


def test_a_job_without_a_place_is_refused() -> None:
    job = RayJob.model_validate(make_job(cluster=None))
    assert job_fault(job) is None
    job.spec.ray_cluster_spec = None
    fault = job_fault(job)
    assert fault is not None
    assert "one of RayClusterSpec or ClusterSelector must be set" in fault[1]
