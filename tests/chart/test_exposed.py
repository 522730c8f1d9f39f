"""The dashboard behind a proxy, TLS between Ray's nodes, and a cluster that survives its head."""

import yaml

from tests.chart.rendering import VALUES_FILES, Object, Renderer, at, of_kind, rows, table, text

PLAIN, EXPOSED = VALUES_FILES["gpu-values.yaml"], VALUES_FILES["exposed-values.yaml"]
REDIS = (
    "--set=gcsFaultTolerance.redisAddress=redis.databases.svc:6380",
    "--set=gcsFaultTolerance.passwordSecret=redis",
)
ROUTE = (
    "--set=dashboard.httpRoute.enabled=true",
    "--set=dashboard.httpRoute.parentRefs[0].name=public",
    "--set=dashboard.httpRoute.parentRefs[0].namespace=gateways",
    "--set=dashboard.httpRoute.hostnames[0]=ray.internal.example.com",
)
SERVICE = "trainshed-head-svc"


def cluster_of(objects: list[Object]) -> Object:
    [cluster] = of_kind(objects, "RayCluster")
    return table(cluster, "spec")


def default_class(objects: list[Object]) -> Object:
    return class_of(objects, "default")


def class_of(objects: list[Object], name: str) -> Object:
    maps = {text(each, "metadata", "name"): each for each in of_kind(objects, "ConfigMap")}
    return table(yaml.safe_load(text(maps["trainshed-classes"], "data", "classes.yaml")), name)


def worker_of(cluster: Object) -> Object:
    return rows(rows(cluster, "workerGroupSpecs")[0], "template", "spec", "containers")[0]


def test_an_ingress_leads_to_the_dashboard_by_its_host_and_certificate(renderer: Renderer) -> None:
    [ingress] = of_kind(renderer.render(EXPOSED), "Ingress")
    spec, metadata = table(ingress, "spec"), table(ingress, "metadata")
    [rule] = rows(spec, "rules")

    assert rule["host"] == "ray.example.com"
    assert at(rule, "http", "paths", 0, "backend", "service") == {
        "name": SERVICE,
        "port": {"number": 8265},
    }
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["ray.example.com"], "secretName": "ray-example-com"}]
    assert metadata["annotations"] == {"cert-manager.io/cluster-issuer": "company"}


def test_a_route_of_a_gateway_leads_there_too(renderer: Renderer) -> None:
    [route] = of_kind(renderer.render(EXPOSED, *ROUTE), "HTTPRoute")

    assert table(route, "spec") == {
        "parentRefs": [{"name": "public", "namespace": "gateways"}],
        "hostnames": ["ray.internal.example.com"],
        "rules": [{"backendRefs": [{"name": SERVICE, "port": 8265}]}],
    }


def test_the_heads_service_has_annotations(renderer: Renderer) -> None:
    cluster = cluster_of(renderer.render(EXPOSED))

    assert cluster["headServiceAnnotations"] == {"example.com/owner": "ml-platform"}


def test_nothing_leads_to_the_dashboard_by_default(renderer: Renderer) -> None:
    objects = renderer.render(PLAIN)

    assert of_kind(objects, "Ingress") + of_kind(objects, "HTTPRoute") == []
    assert "headServiceAnnotations" not in cluster_of(objects)


def test_rays_nodes_speak_tls_in_every_cluster_of_the_release(renderer: Renderer) -> None:
    exposed, plain = renderer.render(EXPOSED), renderer.render(PLAIN)

    for find in (cluster_of, default_class):
        assert find(exposed)["tlsOptions"] == {"enabled": True}
        assert "tlsOptions" not in find(plain)


def test_a_class_of_the_user_speaks_tls_unless_it_says_otherwise(renderer: Renderer) -> None:
    classes = (
        '--set-json=controller.classes.silent={"headGroupSpec": {}}',
        '--set-json=controller.classes.clear={"headGroupSpec": {}}',
        "--set=controller.classes.clear.tlsOptions.enabled=false",
    )
    exposed, plain = (renderer.render(file, *classes) for file in (EXPOSED, PLAIN))

    assert class_of(exposed, "silent")["tlsOptions"] == {"enabled": True}
    assert class_of(exposed, "clear")["tlsOptions"] == {"enabled": False}
    assert "tlsOptions" not in class_of(plain, "silent")


def test_workers_survive_a_new_head_where_redis_has_the_clusters_state(renderer: Renderer) -> None:
    cluster = cluster_of(renderer.render(PLAIN, *REDIS))
    worker = worker_of(cluster)

    assert cluster["gcsFaultToleranceOptions"] == {
        "redisAddress": "redis.databases.svc:6380",
        "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
    }
    assert not {"args", "lifecycle"} & worker.keys()
    assert "RAY_gcs_rpc_server_reconnect_timeout_s" not in _names(worker)


def test_a_cluster_of_a_run_still_ends_with_its_head(renderer: Renderer) -> None:
    own = default_class(renderer.render(PLAIN, *REDIS))

    assert own == default_class(renderer.render(PLAIN))
    assert {"args", "lifecycle"} <= worker_of(own).keys()
    assert "headServiceAnnotations" not in default_class(renderer.render(EXPOSED))


def test_the_hook_deletes_the_cluster_whose_state_is_in_redis(renderer: Renderer) -> None:
    def variables_and_rights(*options: str) -> tuple[bool, bool]:
        objects = renderer.render(PLAIN, *options)
        hook, role = (
            each
            for each in of_kind(objects, "Job") + of_kind(objects, "Role")
            if text(each, "metadata", "name") == "trainshed-uninstall"
        )
        rights = [rule for rule in rows(role, "rules") if at(rule, "resources") == ["rayclusters"]]
        return "TRAINSHED_CONTROLLER_REDIS_CLUSTER" in str(hook), bool(rights)

    assert variables_and_rights(*REDIS) == (True, True)
    assert variables_and_rights() == (False, True), "roles that the platform applied may be older"


def test_the_head_alone_reaches_redis(renderer: Renderer) -> None:
    peer = "--set=gcsFaultTolerance.to[0].namespaceSelector.matchLabels.team=data"
    policies = of_kind(renderer.render(PLAIN, *REDIS, peer), "NetworkPolicy")
    [policy] = [each for each in policies if text(each, "metadata", "name") == "trainshed-redis"]

    assert table(policy, "spec") == {
        "podSelector": {
            "matchLabels": {"ray.io/cluster": "trainshed"},
            "matchExpressions": [
                {"key": "ray.io/node-type", "operator": "NotIn", "values": ["worker"]}
            ],
        },
        "policyTypes": ["Egress"],
        "egress": [
            {
                "ports": [{"protocol": "TCP", "port": 6380}],
                "to": [{"namespaceSelector": {"matchLabels": {"team": "data"}}}],
            }
        ],
    }


def _names(container: Object) -> set[str]:
    return {text(row, "name") for row in rows(container, "env")}
