"""What the chart tells the controller, and the hook that ends it."""

import json
from pathlib import Path

import yaml

from tests.chart.rendering import Object, Renderer, at, of_kind, rows, table, text

HELM_SECONDS = 300  # that `helm uninstall` waits for a hook unless it is told otherwise


def told(objects: list[Object]) -> dict[str, str]:
    """Return the controller's environment."""
    [deployment] = of_kind(objects, "Deployment")
    [container] = rows(deployment, "spec", "template", "spec", "containers")
    told = (row for row in rows(container, "env") if "value" in row)
    return {text(row, "name"): text(row, "value") for row in told}


def test_the_controller_is_told_which_clusters_are_shared(
    renderer: Renderer, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("controller: {sharedClusters: [red, '1e3']}")

    assert told(renderer.render())["TRAINSHED_CONTROLLER_SHARED_CLUSTERS"] == ""
    assert told(renderer.render(values))["TRAINSHED_CONTROLLER_SHARED_CLUSTERS"] == "red,1e3"
    assert told(renderer.render(values))["TRAINSHED_CONTROLLER_DEFAULT_CLUSTER"] == "trainshed"


def test_the_controller_makes_policies_where_the_release_has_them(renderer: Renderer) -> None:
    def can_create(objects: list[Object]) -> bool:
        roles = of_kind(objects, "Role")
        return any(
            at(rule, "resources") == ["networkpolicies"] and at(rule, "verbs") == ["create"]
            for role in roles
            for rule in rows(role, "rules")
        )

    closed, opened = renderer.render(), renderer.render(None, "--set=networkPolicy.enabled=false")

    assert told(closed)["TRAINSHED_CONTROLLER_NETWORK_POLICY"] == "true"
    assert can_create(closed)
    assert told(opened)["TRAINSHED_CONTROLLER_NETWORK_POLICY"] == "false"
    assert not can_create(opened)


def test_the_controller_reads_what_runs_may_set_in_a_class(
    renderer: Renderer, tmp_path: Path
) -> None:
    permissions = {"images": ["registry.example.com/team"], "secrets": ["wandb"]}
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"controller": {"classPermissions": {"default": permissions}}}))

    objects = renderer.render(values)

    [classes] = [
        each for each in of_kind(objects, "ConfigMap") if "classes.yaml" in table(each, "data")
    ]
    folder, _, file = told(objects)["TRAINSHED_CONTROLLER_PERMISSIONS_FILE"].rpartition("/")
    assert yaml.safe_load(text(classes, "data", file)) == {"default": permissions}
    assert told(objects)["TRAINSHED_CONTROLLER_CLASSES_FILE"] == f"{folder}/classes.yaml"


def test_one_object_of_a_namespace_has_the_same_name_in_every_release(renderer: Renderer) -> None:
    def names(release: str) -> set[str]:
        maps = of_kind(renderer.render(None, release=release), "ConfigMap")
        return {text(thing, "metadata", "name") for thing in maps}

    assert names("red") & names("blue") == {"trainshed.dev"}
    without = renderer.render(None, "--set=controller.enabled=false")
    assert of_kind(without, "ConfigMap") == []


def uninstall_job(renderer: Renderer, *options: str) -> Object:
    jobs = of_kind(renderer.render(None, *options), "Job")
    [job] = [job for job in jobs if text(job, "metadata", "name") == "trainshed-uninstall"]
    return job


def test_the_hook_ends_before_helm_loses_patience(renderer: Renderer) -> None:
    job = uninstall_job(renderer)
    [container] = rows(job, "spec", "template", "spec", "containers")
    env = {row["name"]: row["value"] for row in rows(container, "env")}
    deadline = at(job, "spec", "activeDeadlineSeconds")

    assert isinstance(deadline, int)
    assert int(str(env["TRAINSHED_CONTROLLER_UNINSTALL_SECONDS"])) < deadline < HELM_SECONDS
    longer = uninstall_job(renderer, "--set=controller.uninstallSeconds=900")
    assert at(longer, "spec", "activeDeadlineSeconds") == 945


def test_a_hook_that_failed_leaves_its_log(renderer: Renderer) -> None:
    job = uninstall_job(renderer)
    policies = table(job, "metadata", "annotations")

    assert text(policies, "helm.sh/hook-delete-policy") == "before-hook-creation,hook-succeeded"
    assert text(policies, "helm.sh/hook-output-log-policy") == "hook-failed"
    # A Pod that is tried again could meet the Job's deadline, which deletes it.
    assert at(job, "spec", "backoffLimit") == 0


def test_the_controller_reads_the_address_of_its_webhook_from_a_secret(renderer: Renderer) -> None:
    def opened(objects: list[Object]) -> bool:
        policies = [
            each
            for each in of_kind(objects, "NetworkPolicy")
            if at(each, "metadata", "name") == "trainshed-controller"
        ]
        return {"ports": [{"protocol": "TCP", "port": 8443}]} in rows(policies[0], "spec", "egress")

    none = renderer.render()
    some = renderer.render(
        None, "--set=controller.webhook.secretName=hook", "--set=controller.webhook.port=8443"
    )

    assert "TRAINSHED_CONTROLLER_WEBHOOK_URL_FILE" not in told(none)
    assert told(some)["TRAINSHED_CONTROLLER_WEBHOOK_URL_FILE"] == "/var/run/trainshed/webhook/url"
    assert told(some)["TRAINSHED_CONTROLLER_WEBHOOK_CONDITIONS"] == "Complete,Failed,InternalError"
    [deployment] = of_kind(some, "Deployment")
    volumes = rows(deployment, "spec", "template", "spec", "volumes")
    assert {"name": "webhook", "secret": {"secretName": "hook", "optional": True}} in volumes
    assert (opened(none), opened(some)) == (False, True)
