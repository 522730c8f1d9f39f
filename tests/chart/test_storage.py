"""What Pods are told of the object store in which runs live, and where else that shows."""

import json
import re
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from hack.chart.helm import ROOT
from tests.chart.network import Endpoint, is_allowed
from tests.chart.pods import expand_pods
from tests.chart.rendering import VALUES_FILES, Object, Renderer, at, name_of, of_kind, rows, text
from tests.chart.test_names import kinds
from tests.chart.test_network import METADATA, ours, ray
from trainshed_api.names import ENV_HOME, ENV_STORAGE

STORES = {
    "s3-values.yaml": "s3://example-bucket/trainshed",
    "minio-values.yaml": "s3://trainshed/runs",
    "gcs-values.yaml": "gs://example-bucket/trainshed",
    "azure-values.yaml": "abfs://runs@exampleaccount.dfs.core.windows.net/trainshed",
}
CA_FILE = "/etc/trainshed/storage-ca/ca.crt"
# What is in each of the values below: a store, and by what right Pods go there.
S3: dict[str, JsonValue] = {"url": "s3://runs", "region": "eu-x", "credentialsSecret": "keys"}
ENDPOINT: dict[str, JsonValue] = {
    "url": "s3://runs",
    "endpoint": "https://10.0.0.9",
    "credentialsSecret": "keys",
}


def write(folder: Path, storage: dict[str, JsonValue], **others: JsonValue) -> Path:
    """Return a file of values. It is named by what is in it: a Renderer knows values by name."""
    values = {"storage": storage, **others}
    file = folder / f"{abs(hash(json.dumps(values)))}.yaml"
    file.write_text(json.dumps(values))
    return file


def users(objects: list[Object]) -> list[Object]:
    """Return the Pods that use storage: Ray's, and that with the digits."""
    return [
        pod
        for pod in expand_pods(objects)
        if at(pod, "metadata", "labels", "app.kubernetes.io/component") in {"ray", "digits"}
    ]


def environment(pod: Object) -> dict[str, str]:
    (container,) = rows(pod, "spec", "containers")
    return {
        text(row, "name"): text(row, "value") for row in rows(container, "env") if "value" in row
    }


def head_class(objects: list[Object]) -> Object:
    """Return the container of the head of a cluster that a run has for itself."""
    (config,) = (each for each in of_kind(objects, "ConfigMap") if "classes.yaml" in str(each))
    classes = yaml.safe_load(text(config, "data", "classes.yaml"))
    (container,) = rows(classes["default"], "headGroupSpec", "template", "spec", "containers")
    return container


@pytest.mark.parametrize("file", STORES)
def test_no_pod_waits_for_a_volume_and_every_one_of_ray_has_the_address(
    renderer: Renderer, file: str
) -> None:
    objects = renderer.render(VALUES_FILES[file])

    assert "persistentVolumeClaim" not in json.dumps(objects)
    for pod in users(objects):
        (container,) = rows(pod, "spec", "containers")
        if "ray.io/cluster" in str(at(pod, "metadata", "labels")):
            assert environment(pod)["TRAINSHED_HOME"] == STORES[file], name_of(pod)
        else:
            assert container["command"] == ["trainshed", "data", "digits", "--to", STORES[file]]
    assert {"name": "TRAINSHED_HOME", "value": STORES[file]} in rows(head_class(objects), "env")


@pytest.mark.parametrize("file", VALUES_FILES)
def test_a_script_of_ray_train_finds_storage_that_all_nodes_share(
    renderer: Renderer, file: str
) -> None:
    """`ray job submit` of a script brings no variables of a TrainingRun along."""
    objects = renderer.render(VALUES_FILES[file])
    nodes = [pod for pod in expand_pods(objects) if at(pod, "metadata", "labels", "ray.io/cluster")]

    assert len(nodes) >= 2
    for pod in nodes:
        told = {
            text(row, "name"): text(row, "value")
            for row in rows(rows(pod, "spec", "containers")[0], "env")
            if "value" in row
        }
        assert told[ENV_STORAGE] == f"{told[ENV_HOME]}/ray", name_of(pod)


def test_an_address_may_end_in_a_slash(renderer: Renderer, tmp_path: Path) -> None:
    objects = renderer.render(write(tmp_path, {**S3, "url": "s3://runs/team/"}))

    homes = {environment(pod).get("TRAINSHED_HOME", "s3://runs/team") for pod in users(objects)}
    assert homes == {"s3://runs/team"}


def test_all_who_use_a_store_find_it_in_the_same_way(renderer: Renderer) -> None:
    objects = renderer.render(VALUES_FILES["minio-values.yaml"])
    want = {
        "AWS_ENDPOINT_URL": "https://minio.minio.svc:9000",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        # obstore and pyarrow read the first two, boto3 the last.
        "SSL_CERT_FILE": CA_FILE,
        "SSL_CERT_DIR": "/etc/ssl/certs",
        "AWS_CA_BUNDLE": CA_FILE,
        # A client without its keys would ask the node for some: the first is for those of AWS, the
        # second for obstore, which does not read it and gives up within seconds where nobody is.
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",
    }

    assert len(users(objects)) == 4
    for pod in users(objects):
        (container,) = rows(pod, "spec", "containers")
        assert want.items() <= environment(pod).items(), name_of(pod)
        assert "AWS_ALLOW_HTTP" not in environment(pod), name_of(pod)
        assert rows(container, "envFrom") == [{"secretRef": {"name": "object-store"}}]
        mount = {"name": "storage-ca", "mountPath": "/etc/trainshed/storage-ca", "readOnly": True}
        assert mount in rows(container, "volumeMounts"), name_of(pod)
        items: JsonValue = [{"key": "ca.crt", "path": "ca.crt"}]
        volume = {"name": "storage-ca", "configMap": {"name": "company-ca", "items": items}}
        assert volume in rows(pod, "spec", "volumes"), name_of(pod)


def test_a_bundle_may_be_in_a_secret_under_another_key(renderer: Renderer, tmp_path: Path) -> None:
    bundle: JsonValue = {"secret": "company", "key": "tls-ca.pem"}
    objects = renderer.render(write(tmp_path, {**ENDPOINT, "caBundle": bundle}))

    items: JsonValue = [{"key": "tls-ca.pem", "path": "ca.crt"}]
    volume = {"name": "storage-ca", "secret": {"secretName": "company", "items": items}}
    for pod in users(objects):
        assert volume in rows(pod, "spec", "volumes"), name_of(pod)


def test_http_and_hosts_of_buckets_are_told_where_they_are_asked_for(
    renderer: Renderer, tmp_path: Path
) -> None:
    asked: dict[str, JsonValue] = {
        "endpoint": "http://10.0.0.9:9000/",
        "allowHttp": True,
        "virtualHosted": True,
    }
    objects = renderer.render(write(tmp_path, {**ENDPOINT, **asked, "region": "eu-x"}))

    for pod in users(objects):
        told = environment(pod)
        assert told["AWS_ALLOW_HTTP"] == "true"
        assert told["AWS_ENDPOINT_URL"] == "http://10.0.0.9:9000"
        assert told["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "true"
        assert told["AWS_REGION"] == told["AWS_DEFAULT_REGION"] == "eu-x"


def test_keys_of_the_store_win_over_those_that_pods_have_beside(
    renderer: Renderer, tmp_path: Path
) -> None:
    others: JsonValue = {"envFrom": [{"configMapRef": {"name": "other"}}]}
    objects = renderer.render(write(tmp_path, {**S3}, ray=others))

    head = next(pod for pod in users(objects) if "-head-" in name_of(pod))
    assert rows(rows(head, "spec", "containers")[0], "envFrom") == [
        {"configMapRef": {"name": "other"}},
        {"secretRef": {"name": "keys"}},  # Kubernetes: the last one wins
    ]


def test_azure_is_told_by_a_label_which_pods_it_gives_an_identity(renderer: Renderer) -> None:
    def labelled(file: str) -> set[object]:
        objects = renderer.render(VALUES_FILES[file])
        label = "azure.workload.identity/use"
        assert not [
            pod
            for pod in expand_pods(objects)
            if pod not in users(objects) and at(pod, "metadata", "labels", label)
        ]
        return {at(pod, "metadata", "labels", label) for pod in users(objects)}

    assert labelled("azure-values.yaml") == {"true"}
    assert labelled("gcs-values.yaml") == {None}


def test_only_a_node_as_identity_opens_what_a_node_tells_of_itself(
    renderer: Renderer, tmp_path: Path
) -> None:
    node = renderer.render(
        write(tmp_path, {"url": "s3://runs", "region": "eu-x", "identity": "node"})
    )

    for who in (ray("head"), ray("worker"), ours("digits")):
        assert is_allowed(node, who, METADATA, 80)
    assert not is_allowed(node, ours("controller"), METADATA, 80)
    for pod in users(node):
        assert not {"AWS_EC2_METADATA_DISABLED", "AWS_METADATA_ENDPOINT"} & set(environment(pod))


def test_eks_hands_out_identities_at_an_address_of_its_own(
    renderer: Renderer, tmp_path: Path
) -> None:
    storage: dict[str, JsonValue] = {
        "url": "s3://runs",
        "region": "eu-x",
        "identity": "eks-pod-identity",
    }
    objects = renderer.render(write(tmp_path, storage))

    assert is_allowed(objects, ray("worker"), Endpoint(address="169.254.170.23"), 80)
    assert is_allowed(objects, ours("digits"), Endpoint(address="fd00:ec2::23"), 80)
    assert not is_allowed(objects, ray("worker"), METADATA, 80)


def test_an_endpoint_that_is_an_address_needs_no_policy_of_its_own(
    renderer: Renderer, tmp_path: Path
) -> None:
    four = renderer.render(write(tmp_path, ENDPOINT))
    six = renderer.render(write(tmp_path, {**ENDPOINT, "endpoint": "https://[2001:db8::9]:9000"}))

    assert is_allowed(four, ray("worker"), Endpoint(address="10.0.0.9"), 443)
    assert not is_allowed(four, ray("worker"), Endpoint(address="10.0.0.8"), 443)
    assert is_allowed(six, ray("worker"), Endpoint(address="2001:db8::9"), 9000)
    assert not is_allowed(six, ray("worker"), Endpoint(address="2001:db8::9"), 443)


def test_a_store_in_the_cluster_is_reached_by_its_pods_and_their_port(
    renderer: Renderer, tmp_path: Path
) -> None:
    place: JsonValue = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}
    storage = {**ENDPOINT, "endpoint": "https://minio.x.svc"}
    policy: JsonValue = {"storage": {"to": [place], "ports": [9000]}}
    objects = renderer.render(write(tmp_path, storage, networkPolicy=policy))

    assert is_allowed(objects, ray("worker"), Endpoint(namespace="x"), 9000)
    assert not is_allowed(objects, ray("worker"), Endpoint(namespace="x"), 443)
    assert not is_allowed(objects, ray("worker"), Endpoint(namespace="y"), 9000)


def test_a_store_of_a_cloud_may_be_narrowed_to_its_addresses(
    renderer: Renderer, tmp_path: Path
) -> None:
    policy: JsonValue = {"storage": {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}}
    objects = renderer.render(write(tmp_path, S3, networkPolicy=policy))

    assert is_allowed(objects, ray("worker"), Endpoint(address="10.1.2.3"), 443)
    assert not is_allowed(objects, ray("worker"), Endpoint(address="93.184.216.34"), 443)


def test_odd_names_of_a_store_stay_texts(renderer: Renderer, tmp_path: Path) -> None:
    def read(word: str) -> dict[str, str]:
        bundle: JsonValue = {"configMap": word, "key": word}
        storage = {**ENDPOINT, "region": word, "credentialsSecret": word, "caBundle": bundle}
        objects = [
            thing for thing in renderer.render(write(tmp_path, storage)) if thing["kind"] != "Job"
        ]
        return kinds(json.loads(json.dumps(objects)))

    assert read("no") == read("1e3") == read("null") == read("plain")


def test_a_key_is_nowhere_in_the_release(renderer: Renderer) -> None:
    """Only the names of Secrets are: their keys become environment where a Pod starts."""
    for file in STORES:
        rendered = renderer.render_text(VALUES_FILES[file])
        assert "SECRET_ACCESS_KEY" not in rendered
        assert "ACCOUNT_KEY" not in rendered


def test_a_volume_brings_nothing_of_a_store(renderer: Renderer) -> None:
    rendered = renderer.render_text(None)

    for word in ("AWS_", "SSL_CERT", "storage-ca", "azure.workload", "169.254"):
        assert word not in rendered, word


def test_the_docs_name_what_the_chart_makes(renderer: Renderer) -> None:
    docs = (ROOT / "docs" / "storage.md").read_text()
    (policy,) = re.findall(r"```json\n(.*?)```", docs, re.DOTALL)
    accounts = {text(pod, "spec", "serviceAccountName") for pod in users(renderer.render())}

    assert accounts == {"trainshed-ray"}
    assert "system:serviceaccount:NAMESPACE:trainshed-ray" in docs
    for file in STORES:
        assert f"../charts/trainshed/ci/{file}" in docs
    objects, listing = json.loads(policy)["Statement"]
    # A run reads, writes, sweeps checkpoints, gives up half an upload, and looks for attempts.
    assert objects["Action"] == [
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
    ]
    assert listing["Action"] == "s3:ListBucket"
