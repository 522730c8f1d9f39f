"""The API server refuses what the model refuses, and hands back what was given."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_document
from tests.control_plane.plugin import ROOT, ControlPlane
from tests.kuberay.api import ApiError, Kind, KubeApi
from trainshed_api.loading import Document, load_file
from trainshed_api.rules import Rule, iterate_rules
from trainshed_api.validation import validate_document
from trainshed_controller.served import complaint_about_runs

SAMPLES = [
    ROOT / "manifests" / "trainingrun.yaml",
    *(ROOT / "manifests" / "samples").rglob("*.yaml"),
]
RUNS = Kind("/apis/trainshed.dev/v1alpha1", "trainingruns")
CORES = (
    "cpu: Invalid value: expected a Kubernetes quantity above 0 and at most 1M, such as 2 or 500m"
)
IMAGE = f"registry.example.com/team/train@sha256:{'0' * 64}"
BYTES = "memory: Invalid value: expected a Kubernetes quantity above 0 and at most 1E, such as 8Gi"


def dataset(**fields: JsonValue) -> Document:
    """Return a spec with one dataset."""
    return {"data": make_data(make_dataset(**fields))}


GROUPS: Document = {"use": "m:f", "kind": "groups", "by": ["user"]}
ENTRYPOINT_REFUSES: Document = {
    "config": {"a": 1},
    "epochs": 1,
    "batchSize": 8,
    "precision": "float32",
    "syncBatchNorm": True,
    "data": {},
    "checkpoint": {},
}
# Each rule of the CRD by the words it says, with specs that break it.
REFUSED: dict[str, tuple[Document, str]] = {
    "no program": ({"train": None}, "spec: Invalid value: expected exactly one: train"),
    "two programs": (
        {"train": "m:f", "entrypoint": ["a"]},
        "spec: Invalid value: expected exactly one: train",
    ),
    "batches of a framework that has none": (
        {"framework": "xgboost", "batchSize": 8},
        "spec.batchSize: Invalid value: expected no value with framework xgboost: every round",
    ),
    "epochs of a framework that counts rounds": (
        {"framework": "xgboost", "epochs": 8},
        "spec.epochs: Invalid value: expected no value with framework xgboost: a step is a round",
    ),
    "a trace that ends before it begins": (
        {"profile": {"steps": [20, 10]}},
        "spec.profile.steps: Invalid value: expected the first step, then the last one",
    ),
    "a precision that XGBoost has not": (
        {"framework": "xgboost", "precision": "bfloat16"},
        "spec.precision: Invalid value: expected no value with framework xgboost: XGBoost computes",
    ),
    "a shuffle of a framework that has none": (
        {**dataset(shuffle={"mode": "global"}), "framework": "xgboost"},
        "spec.data: Invalid value: expected shuffle.mode, shuffle.bufferSize, augment, read.mix, "
        "rowsPerEpoch, split, feed.dtypes, feed.lastBatch, feed.collate of each dataset left out "
        "with framework xgboost",
    ),
    "a function of batches of a framework that makes pairs of them": (
        {**dataset(feed={"collate": {"use": "a:b"}}), "framework": "tensorflow"},
        "spec.data: Invalid value: expected feed.collate of each dataset left out with framework",
    ),
    "a type that numpy has not for a function that is given arrays": (
        dataset(feed={"dtypes": {"x": "bfloat16"}, "collate": {"use": "a:b"}}),
        "spec.data.datasets[train].feed.dtypes: Invalid value: expected no bfloat16 with "
        "feed.collate",
    ),
    "parts of a step of a framework that makes one of each batch": (
        {"framework": "tensorflow", "accumulate": 2},
        "spec.accumulate: Invalid value: expected no value with framework tensorflow",
    ),
    "statistics of a framework whose layers say it themselves": (
        {"framework": "tensorflow", "syncBatchNorm": True},
        "spec.syncBatchNorm: Invalid value: expected no value with framework tensorflow",
    ),
    "statistics of trees": (
        {"framework": "xgboost", "syncBatchNorm": True},
        "spec.syncBatchNorm: Invalid value: expected no value with framework xgboost: trees",
    ),
    "more GPUs of a worker than Keras takes": (
        {"framework": "tensorflow", "workers": {"resources": {"gpu": 2}}},
        "spec.workers: Invalid value: expected resources.gpu of at most 1 with framework "
        "tensorflow",
    ),
    "a precision that Keras sets by itself": (
        {"framework": "tensorflow", "precision": "bfloat16"},
        "spec.precision: Invalid value: expected no value with framework tensorflow: a program",
    ),
    "fewer rows than workers": (
        {"batchSize": 2, "workers": {"count": 3}},
        "spec.batchSize: Invalid value: expected at least workers.count",
    ),
    "a name of ours in env": (
        {"env": {"TRAINSHED_X": "1"}},
        "spec.env: Invalid value: expected names",
    ),
    "a tracker's key in env": (
        {"tracking": {"wandb": {}}, "env": {"WANDB_API_KEY": "x"}},
        "spec.env: Invalid value: expected no secret in a TrainingRun",
    ),
    "a password in a tracker's address": (
        {"tracking": {"mlflow": {"trackingUri": "http://me:x@mlflow"}}},
        "spec.tracking.mlflow.trackingUri: Invalid value",
    ),
    "no name in env": ({"env": {"1": "1"}}, "spec.env: Invalid value: expected names"),
    "a local folder": (
        {"code": {"workingDir": "src"}},
        "spec.code.workingDir: Invalid value: expected the address of a .zip that the cluster can "
        "read",
    ),
    "an option of pip": (
        {"code": {"pip": ["-r x"]}},
        "spec.code.pip: Invalid value: expected requirements such as einops==0.8",
    ),
    "two clusters": (
        {"cluster": {"shared": "a", "dedicated": {}}},
        "spec.cluster: Invalid value: expected exactly one: shared",
    ),
    "an image for a shared cluster": (
        {"image": IMAGE},
        "spec.image: Invalid value: expected no value without cluster.dedicated",
    ),
    "an image without its digest": (
        {"cluster": {"dedicated": {}}, "image": IMAGE.partition("@")[0]},
        "spec.image in body should match",
    ),
    "a Secret for a shared cluster": (
        {"cluster": {"shared": "a"}, "envFrom": [{"secretRef": {"name": "wandb"}}]},
        "spec.envFrom: Invalid value: expected no value without cluster.dedicated",
    ),
    "an environment from nowhere": (
        {"cluster": {"dedicated": {}}, "envFrom": [{}]},
        "spec.envFrom[0]: Invalid value: expected exactly one: secretRef or configMapRef",
    ),
    "a rule for everything": (
        {"failurePolicy": {"rules": [{"action": "Fail"}]}},
        "spec.failurePolicy.rules[0]: Invalid value: expected exitCodes, logPattern or both",
    ),
    **{
        f"{value} CPUs": ({"workers": {"resources": {"cpu": value}}}, CORES)
        for value in (0, "-1", "1e309", "1000001", 1_000_001, "1Mi")
    },
    **{
        f"{value} of memory": ({"workers": {"resources": {"memory": value}}}, BYTES)
        for value in ("much", "-8Gi", "1e300", "1e309", "1.1E", "1Ei", 10**18 + 1)
    },
    "more GPUs than anybody counts": (
        {"workers": {"resources": {"gpu": 2**31}}},
        "spec.workers.resources.gpu in body should be less than or equal to 2147483647",
    ),
    "a dataset without a name": (
        {"data": {"datasets": {"1": make_dataset()}}},
        "spec.data.datasets: Invalid value: a dataset's name is a letter",
    ),
    "kept by workers, shuffled over all": (
        dataset(cache="workers", shuffle={"mode": "global"}),
        "spec.data.datasets[train].cache: Invalid value: expected objects, disk, none or auto",
    ),
    "a buffer of nothing": (
        dataset(shuffle={"mode": "local", "bufferSize": 0}),
        "spec.data.datasets[train].shuffle.bufferSize: Invalid value: expected at least 2 with "
        "mode",
    ),
    "a mix of what is not there": (
        {"data": {"datasets": {"train": {"read": {"mix": {"a": 0.5}}}}}},
        "spec.data.datasets: Invalid value: read.mix: expected existing datasets that are no mixes",
    ),
    "a mix of nothing": (
        dataset(read={"mix": {}}),
        "spec.data.datasets.train.read.mix in body should have at least 1 properties",
    ),
    "a mix with a cache": (
        {
            "data": {
                "datasets": {
                    "train": {"read": {"mix": {"a": 0.5}}, "cache": "objects"},
                    "a": make_dataset(),
                }
            }
        },
        "spec.data.datasets[train].read: Invalid value: expected transforms, augment, task, cache "
        "and",
    ),
    "an epoch of some rows that workers keep": (
        dataset(rowsPerEpoch=8, cache="workers"),
        "spec.data.datasets[train].rowsPerEpoch: Invalid value: expected cache objects, disk, "
        "none or",
    ),
    "read two ways": (
        dataset(read={"format": "parquet", "path": "a", "use": "m:f"}),
        "spec.data.datasets[train].read: Invalid value: expected exactly one: format",
    ),
    "read by a reader, too": (
        dataset(read={"format": "parquet", "path": "a", "reader": "read_sql"}),
        "spec.data.datasets[train].read: Invalid value: expected exactly one: format",
    ),
    "no path": (
        dataset(read={"format": "parquet"}),
        "spec.data.datasets[train].read.path: Invalid value: missing; expected the file or folder",
    ),
    "a path for a function": (
        dataset(read={"use": "m:f", "path": "a"}),
        "spec.data.datasets[train].read.path: Invalid value: expected no value without format",
    ),
    "columns for a function": (
        dataset(read={"use": "m:f", "columns": ["a"]}),
        "spec.data.datasets[train].read.columns: Invalid value: expected no value without format",
    ),
    "a cache for a function": (
        dataset(read={"use": "m:f", "localCache": "20Gi"}),
        "spec.data.datasets[train].read.localCache: Invalid value: expected no value without "
        "format",
    ),
    "no credentials for a disk": (
        dataset(read={"format": "csv", "path": "a", "anonymous": True}),
        "spec.data.datasets[train].read.anonymous: Invalid value: expected no value without a "
        "path in a",
    ),
    **{
        f"{name} of another store": (
            dataset(read={"format": "csv", "path": "gs://b/a", name: value}),
            f"spec.data.datasets[train].read.{name}: Invalid value: expected no value without a "
            "path at s3",
        )
        for name, value in (
            ("requesterPays", True),
            ("endpoint", "https://store.example"),
            ("region", "eu-central-1"),
        )
    },
    "an endpoint that is none": (
        dataset(read={"format": "csv", "path": "s3://b/a", "endpoint": "store"}),
        "spec.data.datasets.train.read.endpoint in body should match",
    ),
    "a batch of rows": (
        dataset(transforms=[{"use": "m:f", "kind": "rows", "batchSize": 2}]),
        "spec.data.datasets[train].transforms[0].batchSize: Invalid value: expected no value "
        "without kind",
    ),
    "single rows as a table": (
        dataset(transforms=[{"use": "m:f", "kind": "rows", "batchFormat": "pandas"}]),
        "spec.data.datasets[train].transforms[0].batchFormat: Invalid value: expected no value "
        "with",
    ),
    "groups of nothing": (
        dataset(transforms=[{"use": "m:f", "kind": "groups"}]),
        "spec.data.datasets[train].transforms[0].by: Invalid value: expected the columns that make",
    ),
    "an order without groups": (
        dataset(transforms=[{"use": "m:f", "orderBy": ["time"]}]),
        "spec.data.datasets[train].transforms[0].orderBy: Invalid value: expected no value "
        "without kind g",
    ),
    "groups that are kept nowhere": (
        dataset(transforms=[GROUPS], cache="none"),
        "spec.data.datasets[train].cache: Invalid value: expected objects, disk, workers or auto "
        "with",
    ),
    "more CPUs for a task than for all": (
        {"data": make_data(make_dataset(task={"cpus": 3}), cpus=2)},
        "spec.data.datasets: Invalid value: task.cpus: expected at most the CPUs of data.cpus",
    ),
    **{
        f"{name} for an entrypoint": (
            {"train": None, "entrypoint": ["python", "x.py"], name: value},
            f"spec.{name}: Invalid value: expected no value without train",
        )
        for name, value in ENTRYPOINT_REFUSES.items()
    },
}


@dataclass(frozen=True)
class Change:
    """A change of a run: of what, from what, and what is said to it."""

    change: Document
    want: str = ""
    start: Document = field(default_factory=lambda: {"config": {"rate": 1}, **dataset()})


STAYS: Document = {
    "train": "my_module:other",
    "config": {"rate": 2},
    "batchSize": 128,
    "precision": "float16",
    "syncBatchNorm": True,
    "seed": 3,
    "storage": "elsewhere",
}
WAITS: dict[str, Document] = {
    "CPU of workers": {"workers": {"resources": {"cpu": 2}}},
    "the group": {"workers": {"group": "gpu"}},
    "the cluster": {"cluster": {"dedicated": {}}},
    "the data's CPUs": {"data": {"cpus": 3}},
    "the cache": dataset(cache="none"),
    "the prefetch": dataset(feed={"prefetchBatches": 8}),
    "the code": {"code": {"pip": ["einops"]}},
    "the image": {"cluster": {"dedicated": {}}, "image": IMAGE},
    "checkpoints": {"checkpoint": {"keep": 5}},
}
NEVER, SUSPENDED = "it makes another run", "can be changed only while spec.suspend is true"
CHANGES: dict[str, Change] = {
    **{
        f"{name} stays": Change({name: value}, f"spec.{name}: Invalid value: cannot be changed: ")
        for name, value in STAYS.items()
    },
    "a dataset stays": Change(dataset(read={"path": "other"}), "read.path: Invalid value: cannot"),
    "no dataset is added": Change({"data": {"datasets": {"new": make_dataset()}}}, NEVER),
    "transforms stay": Change(
        dataset(transforms=[{"use": "m:f", "options": {"size": 9}}]),
        "transforms: Invalid value: cannot be changed",
        dataset(transforms=[{"use": "m:f", "options": {"size": 8}}]),
    ),
    **{f"{name} waits for a pause": Change(value, SUSPENDED) for name, value in WAITS.items()},
    "workers may change": Change({"workers": {"count": 2}}),
    "the budget may change": Change({"failurePolicy": {"maxApplicationFailures": 3}}),
    "what a task is given may change": Change(dataset(task={"memory": "4Gi"})),
    "env may change": Change({"env": {"A": "1"}}),
    "envFrom may change": Change(
        {"envFrom": [{"secretRef": {"name": "wandb"}}]}, start={"cluster": {"dedicated": {}}}
    ),
    "priority, deadlines and ttl may change": Change(
        {"priority": 3, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0}
    ),
    "a run may be suspended": Change({"suspend": True}),
    "the cluster may change in a pause": Change(
        {"cluster": {"shared": "other"}, "checkpoint": {"keep": 5}}, start={"suspend": True}
    ),
    "the prefetch may change in a pause": Change(
        dataset(feed={"prefetchBatches": 8}), start={"suspend": True, **dataset()}
    ),
    "but the training not": Change({"seed": 4}, NEVER, {"suspend": True}),
}


@pytest.fixture(scope="session")
def namespace_of_all(control_plane: ControlPlane, trainingrun_crd: str) -> str:
    """One namespace for what is not kept: a dry run, or an object with a name of its own."""
    control_plane.kubectl("create", "namespace", "crd-tests")
    return "crd-tests"


@pytest.fixture
async def api(control_plane: ControlPlane, trainingrun_crd: str) -> AsyncIterator[KubeApi]:
    """The API without kubectl, which takes a process for every question."""
    async with await KubeApi.connect(control_plane.kubeconfig) as connected:
        yield connected


def manifest_of(spec: Document) -> Document:
    """Return a run with that spec, under a name that the server gives it."""
    document = make_document(**{k: v for k, v in spec.items() if v is not None})
    if spec.get("train", "") is None:
        document["spec"] = {k: v for k, v in spec.items() if v is not None}
    return {**document, "metadata": {"generateName": "digits-"}}


def complaint(refusal: ApiError) -> str:
    """Return what the server says to a user."""
    said = json.loads(refusal.message)["message"]
    assert isinstance(said, str)
    return said


@pytest.mark.parametrize("case", REFUSED)
async def test_server_refuses(api: KubeApi, namespace_of_all: str, case: str) -> None:
    spec, want = REFUSED[case]

    with pytest.raises(ApiError) as refusal:
        await api.create(RUNS, namespace_of_all, manifest_of(spec), is_strict=True, is_trial=True)

    assert want in complaint(refusal.value)


async def test_server_refuses_a_long_name(api: KubeApi, namespace_of_all: str) -> None:
    document = make_document() | {"metadata": {"name": "a" * 41}}

    with pytest.raises(ApiError, match=r"metadata\.name: expected at most 40"):
        await api.create(RUNS, namespace_of_all, document)


@pytest.mark.parametrize("case", CHANGES)
async def test_server_lets_change_what_may_change(
    api: KubeApi, namespace_of_all: str, case: str
) -> None:
    change = CHANGES[case]
    made = await api.create(RUNS, namespace_of_all, manifest_of(change.start), is_strict=True)
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    name = str(metadata["name"])

    if change.want:
        with pytest.raises(ApiError) as refusal:
            await api.patch(RUNS, namespace_of_all, name, {"spec": change.change})
        assert change.want in complaint(refusal.value)
    else:
        await api.patch(RUNS, namespace_of_all, name, {"spec": change.change})
    assert made["kind"] == "TrainingRun"


def test_every_rule_has_a_case_that_it_refuses() -> None:
    said = [want for _, want in REFUSED.values()] + [change.want for change in CHANGES.values()]

    def is_covered(rule: Rule) -> bool:
        return any(
            rule.message.startswith(text.partition("Invalid value: ")[2].rstrip() or text)
            or (text and text in rule.message)
            for text in said
            if text
        )

    missing = [r for r in iterate_rules() if not is_covered(r) and not r.message.startswith("meta")]
    assert missing == []


READ: dict[str, Document] = {
    "by a reader": {"reader": "read_sql", "options": {"sql": "select 1"}},
    "rows that are chosen": {
        "format": "csv",
        "path": "rows",
        "where": "x > 1",
        "holdout": {"share": 0.2, "keep": "held", "stratify": "label"},
        "options": {"delimiter": ";"},
    },
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
async def test_server_takes_what_the_model_takes(
    api: KubeApi, namespace_of_all: str, read: Document
) -> None:
    manifest = manifest_of(dataset(read=read))

    made = await api.create(RUNS, namespace_of_all, manifest, is_strict=True, is_trial=True)

    assert made["spec"]


@pytest.mark.parametrize("file", SAMPLES, ids=[path.name for path in SAMPLES])
def test_object_that_the_server_hands_back_is_the_file(
    control_plane: ControlPlane, namespace_of_all: str, file: Path
) -> None:
    answer = control_plane.kubectl(
        "create", "-n", namespace_of_all, "--validate=strict", "--dry-run=server", "-o", "json",
        "-f", str(file),
    )  # fmt: skip

    read_back = validate_document(json.loads(answer), "server")

    assert read_back.spec == load_file(file).spec


def test_explain_reads_like_a_manual(control_plane: ControlPlane, trainingrun_crd: str) -> None:
    text = control_plane.kubectl("explain", "trun.spec.workers.resources.cpu")

    assert "CPU cores of each worker, such as 2, 0.5 or 500m." in text


def test_columns_are_those_of_the_status(
    control_plane: ControlPlane, namespace: str, trainingrun_crd: str
) -> None:
    control_plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(make_document()))
    at = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}
        for kind, reason in (("Admitted", "Admitted"), ("Progressing", "WorkersLost"))
    ]
    status = {
        "phase": "Restarting",
        "attempt": 2,
        "conditions": conditions,
        "progress": {"display": {"epoch": "3/5", "step": "120/390", "loss": "0.31", "eta": "42s"}},
        "queue": {"position": 7, "reason": "2 before it"},
        "attempts": [
            {"number": n, "generation": 1, "rayJob": f"d-{n}", "jobId": "j", "rayCluster": cluster}
            for n, cluster in ((1, "first"), (2, "trainshed"))
        ],
    }
    control_plane.kubectl(
        "patch", "-n", namespace, "trun", "digits", "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip

    head, row = control_plane.kubectl("get", "-n", namespace, "trun").splitlines()

    assert head.split() == [
        "NAME", "PHASE", "WHY", "ATTEMPT", "EPOCH", "STEP", "LOSS", "RATE", "DATA-WAIT", "ETA",
        "AGE",
    ]  # fmt: skip
    shown = ["digits", "Restarting", "WorkersLost", "2", "3/5", "120/390", "0.31"]
    assert row.split()[:7] == shown

    head, row = control_plane.kubectl("get", "-n", namespace, "trun", "-o", "wide").splitlines()
    assert head.split()[-2:] == ["CLUSTER", "POSITION"]
    assert row.split()[-2:] == ["trainshed", "7"]


def test_the_document_of_the_api_server_shows_what_a_crd_lacks(
    control_plane: ControlPlane, trainingrun_crd: str
) -> None:
    raw = control_plane.kubectl("get", "--raw", "/openapi/v3/apis/trainshed.dev/v1alpha1")
    assert complaint_about_runs(json.loads(raw)) == ""

    older = json.loads(raw.replace('"completionTime"', '"another"'))
    assert "without status.completionTime; " in complaint_about_runs(older)
