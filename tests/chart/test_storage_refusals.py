"""Wrong values of an object store are refused before anything reaches a cluster, by their names."""

from pathlib import Path

import pytest

from tests.chart.refusals import Case, check_refused
from tests.chart.rendering import Renderer


def aws(text: str) -> str:
    """Return values of a store of Amazon's, with more in `storage`."""
    return f"storage: {{url: s3://runs, region: eu-x, credentialsSecret: keys, {text}}}"


def at_endpoint(endpoint: str, more: str = "") -> str:
    """Return values of a store at an address that policies are told, too."""
    return (
        "networkPolicy: {storage: {to: [{podSelector: {}}]}}\n"
        f"storage: {{url: s3://runs, endpoint: '{endpoint}', credentialsSecret: keys, {more}}}"
    )


def policy(peers: str) -> str:
    return f"{aws('')}\nnetworkPolicy: {{storage: {{to: {peers}}}}}"


def not_an_address(url: str) -> Case:
    return Case(f"storage: {{url: '{url}'}}", (f'storage.url: got "{url}"', "s3://BUCKET/PREFIX"))


def of_the_node(host: str) -> Case:
    return Case(
        at_endpoint(f"https://{host}"),
        ("storage.endpoint: got https://", "an address of the Pod or its node"),
    )


def only_with_a_store(text: str, field: str) -> Case:
    return Case(f"storage: {{{text}}}", (f"{field}: got a value, and storage.url is empty",))


def two_homes(text: str, field: str) -> Case:
    return Case(aws(text), ("storage.url: got an address", f"{field} is set"))


CASES = {
    # an address
    "an address of a file server": not_an_address("nfs://server/runs"),
    "an address without a bucket": not_an_address("s3://"),
    "an address with keys": not_an_address("s3://key:secret@runs/a"),
    "an address with options": not_an_address("s3://runs/a?endpoint_override=x"),
    "an address with a gap": not_an_address("s3://runs/a b"),
    "an address with an empty folder": not_an_address("s3://runs//a"),
    "an address of Azure without an account": not_an_address("abfs://runs/a"),
    "an address of a page": not_an_address("https://runs.s3.amazonaws.com/a"),
    "an address that goes up": Case(
        "storage: {url: s3://runs/a/../b}",
        ('storage.url: got "s3://runs/a/../b"', "without . and .."),
    ),
    # and a volume
    "a claim that is there": two_homes("existingClaim: b", "storage.existingClaim"),
    "a size of a claim": two_homes("claim: {size: 5Gi}", "storage.claim.size"),
    "a class of a claim": two_homes("claim: {storageClass: nfs}", "storage.claim.storageClass"),
    "a name of a claim": two_homes("claim: {name: runs}", "storage.claim.name"),
    "modes of a claim": two_homes(
        "claim: {accessModes: [ReadWriteOnce]}", "storage.claim.accessModes"
    ),
    "a place to mount it": two_homes("mountPath: /mnt/team", "storage.mountPath"),
    # what a volume has no use for
    "an endpoint of a volume": only_with_a_store("endpoint: https://x.example", "storage.endpoint"),
    "a region of a volume": only_with_a_store("region: eu-x", "storage.region"),
    "keys of a volume": only_with_a_store("credentialsSecret: keys", "storage.credentialsSecret"),
    "an identity before a volume": only_with_a_store("identity: node", "storage.identity"),
    "certificates of a volume": only_with_a_store(
        "caBundle: {configMap: ca}", "storage.caBundle.configMap"
    ),
    "a policy to a volume": Case(
        "networkPolicy: {storage: {ports: [9000]}}",
        ("networkPolicy.storage.ports: got a value, and storage.url is empty",),
    ),
    # an endpoint
    "a bucket of Amazon's somewhere": Case(
        "storage: {url: s3://runs, credentialsSecret: keys}", ("storage.region: got nothing",)
    ),
    "an endpoint of Google's": Case(
        "storage: {url: gs://runs, credentialsSecret: keys, endpoint: https://x.example}",
        ("storage.endpoint: got a value, and storage.url is gs://runs",),
    ),
    "a region of Azure's": Case(
        "storage: {url: abfs://a@b, credentialsSecret: keys, region: eu-x}",
        ("storage.region: got a value, and storage.url is abfs://a@b",),
    ),
    "an endpoint without its scheme": Case(
        at_endpoint("minio.example:9000"),
        ('storage.endpoint: got "minio.example:9000"', "https://"),
    ),
    "an endpoint with keys": Case(
        at_endpoint("https://key:secret@minio.example"), ("storage.endpoint: got", "without keys")
    ),
    "an endpoint with options": Case(
        at_endpoint("https://minio.example/?a=b"), ("storage.endpoint: got", "options")
    ),
    "an endpoint that anybody reads": Case(
        at_endpoint("http://minio.example:9000"),
        ("storage.endpoint: got http://minio.example:9000", "storage.allowHttp=true"),
    ),
    "the node's metadata": of_the_node("169.254.169.254"),
    "the metadata of a container": of_the_node("169.254.170.2"),
    "the node's metadata by another port": of_the_node("169.254.169.254:8080/latest"),
    "the node's metadata by IPv6": of_the_node("[fd00:ec2::254]"),
    "the node's metadata by IPv4 in IPv6": of_the_node("[::ffff:169.254.169.254]"),
    "the node's metadata by name": of_the_node("metadata.google.internal"),
    "the node's metadata by name, in capitals": of_the_node("Metadata.Google.Internal"),
    "the node's metadata by name, with a dot": Case(
        at_endpoint("https://metadata.google.internal."), ("storage.endpoint: got", "https://HOST")
    ),
    "Azure's wire server": of_the_node("168.63.129.16"),
    "the Pod itself": of_the_node("localhost:9000"),
    "the Pod itself by number": of_the_node("127.0.0.1:9000"),
    "the Pod itself by IPv6": of_the_node("[::1]:9000"),
    "the node's metadata as one number": Case(
        at_endpoint("https://2852039166"), ("storage.endpoint: got", "four numbers")
    ),
    "the node's metadata in hexadecimal": Case(
        at_endpoint("https://0xA9.0xFE.0xA9.0xFE"), ("storage.endpoint: got", "four numbers")
    ),
    "the node's metadata in octal": Case(
        at_endpoint("https://0251.0376.0251.0376"), ("storage.endpoint: got", "four numbers")
    ),
    "certificates from two places": Case(
        aws("caBundle: {configMap: a, secret: b}"),
        ("storage.caBundle: got both configMap and secret",),
    ),
    # by what right
    "a store without a right": Case(
        "storage: {url: s3://runs, region: eu-x}",
        ("storage.url: got s3://runs", "Set storage.credentialsSecret or storage.identity"),
    ),
    "two rights": Case(
        aws("identity: node"),
        ("storage.identity: got a value, and storage.credentialsSecret is set",),
    ),
    "an identity of nobody's": Case(aws("identity: me"), ("/storage/identity", "'irsa'")),
    "an identity of another cloud": Case(
        "storage: {url: gs://runs, identity: irsa}",
        ("storage.identity: got irsa, which is for s3:// addresses", "gs://runs"),
    ),
    "a role that is not said": Case(
        "storage: {url: s3://runs, region: eu-x, identity: irsa}",
        ("serviceAccount.annotations.eks.amazonaws.com/role-arn",),
    ),
    "a client that is not said": Case(
        "storage: {url: abfs://a@b, identity: azure}",
        ("serviceAccount.annotations.azure.workload.identity/client-id",),
    ),
    "a Secret of another namespace": Case(
        "storage: {url: s3://runs, region: eu-x, credentialsSecret: other/keys}",
        ("/storage/credentialsSecret", "does not match pattern"),
    ),
    "keys in the open": Case(
        aws("credentials: {accessKey: x}"), ("/storage", "'credentials' not allowed")
    ),
    # an environment that says something else than storage
    "an endpoint in the environment": Case(
        f"{aws('')}\nray: {{env: {{AWS_ENDPOINT_URL: https://x.example}}}}",
        (
            "ray.env: got AWS_ENDPOINT_URL",
            "expected the value storage.endpoint",
        ),
    ),
    "a region of one group": Case(
        f"{aws('')}\ngroups: {{gpu: {{env: {{AWS_REGION: eu-y}}}}}}",
        (
            "groups.gpu.env: got AWS_REGION",
            "expected the value storage.region",
        ),
    ),
    "certificates in the environment": Case(
        "storage: {url: gs://runs, credentialsSecret: keys}\nray: {env: {SSL_CERT_FILE: /tmp/ca}}",
        (
            "ray.env: got SSL_CERT_FILE",
            "expected the value storage.caBundle",
        ),
    ),
    # the way there
    "a name in a policy": Case(
        "storage: {url: s3://runs, endpoint: https://minio.example, credentialsSecret: keys}",
        ("networkPolicy.storage.to: got nothing; expected the addresses of https://minio.example",),
    ),
    "every address, and so the node's": Case(
        policy("[{ipBlock: {cidr: 0.0.0.0/0}}]"),
        ("networkPolicy.storage.to: got 0.0.0.0/0", "169.254.0.0/16"),
    ),
    "every address but others than the node's": Case(
        policy("[{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]"),
        ("networkPolicy.storage.to: got 0.0.0.0/0",),
    ),
    "every address of IPv6, and so the node's": Case(
        policy("[{ipBlock: {cidr: '::/0'}}]"),
        ("networkPolicy.storage.to: got ::/0", "fd00:ec2::/32"),
    ),
    "the node's address": Case(
        policy("[{ipBlock: {cidr: 169.254.169.254/32}}]"),
        ("networkPolicy.storage.to: got 169.254.169.254/32",),
    ),
    "a peer that is none": Case(policy("[10.1.2.3]"), ("/networkPolicy/storage/to/0", "object")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refused(renderer: Renderer, tmp_path: Path, case: Case) -> None:
    check_refused(renderer, tmp_path, case)


ACCEPTED = {
    "a bucket alone": aws(""),
    "Azure's account alone": "storage: {url: 'abfs://a@b', credentialsSecret: keys}",
    "Azure over TLS, in another cloud": (
        "storage: {url: 'abfss://a@b.dfs.core.usgovcloudapi.net/x', credentialsSecret: keys}"
    ),
    "an endpoint in a folder": at_endpoint("https://store.example/storage/v1/s3"),
    "an endpoint whose name only begins like an address": at_endpoint("https://10.example"),
    "an endpoint without policies": (
        "networkPolicy: {enabled: false}\n"
        "storage: {url: s3://runs, endpoint: 'https://minio.example', credentialsSecret: keys}"
    ),
    "a dataset's region beside a volume": "ray: {env: {AWS_REGION: eu-x}}",
    "a dataset's region beside a bucket of Google's": (
        "storage: {url: gs://runs, credentialsSecret: keys}\nray: {env: {AWS_REGION: eu-x}}"
    ),
    "all addresses but the node's": policy(
        "[{ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}}]"
    ),
}


@pytest.mark.parametrize("values", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(renderer: Renderer, tmp_path: Path, values: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)

    assert "TRAINSHED_HOME" in renderer.render_text(file)
