"""Where images come from: with a mirror, from nowhere else."""

import re
from collections.abc import Iterator

import pytest
import yaml
from pydantic import JsonValue

from hack.chart.helm import ROOT, prepare_chart
from hack.images.image import list_images
from tests.chart.pods import containers_of, expand_pods
from tests.chart.rendering import VALUES_FILES, Object, Renderer, of_kind, rows, text
from tests.chart.test_bundle import STAND_IN

MIRROR = "mirror.example:5000/all"
ON_MIRROR = (
    f"--set=global.imageRegistry={MIRROR}",
    f"--set=kuberay-operator.image.repository={MIRROR}/kuberay/operator",
)


@pytest.fixture(scope="module")
def whole(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    """The chart with KubeRay's stand-in, whose image has to be on the mirror as well."""
    return Renderer(helm, prepare_chart(tmp_path_factory.mktemp("whole"), STAND_IN))


def images(objects: list[Object]) -> list[str]:
    """Return every image of every Pod and of every class of clusters."""
    pods = [text(each, "image") for pod in expand_pods(objects) for each in containers_of(pod)]
    return pods + [image for thing in of_kind(objects, "ConfigMap") for image in _in_classes(thing)]


def _in_classes(thing: Object) -> Iterator[str]:
    data = thing.get("data")
    assert isinstance(data, dict)
    if "classes.yaml" in data:
        yield from _named_image(yaml.safe_load(str(data["classes.yaml"])))


def _named_image(value: JsonValue) -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    for key, item in items:
        if isinstance(item, (dict, list)):
            yield from _named_image(item)
        elif key == "image":
            yield str(item)


# Without the example whose sidecars name a registry themselves, which a mirror refuses.
@pytest.mark.parametrize("file", sorted(set(VALUES_FILES) - {"rdma-values.yaml"}))
def test_with_a_mirror_no_image_comes_from_elsewhere(whole: Renderer, file: str) -> None:
    used = images(whole.render(VALUES_FILES[file], *ON_MIRROR))

    assert len(used) >= 6
    assert [image for image in used if not image.startswith(f"{MIRROR}/")] == []


def test_the_example_of_an_air_gap_leaves_its_mirror_nowhere(whole: Renderer) -> None:
    used = images(whole.render(VALUES_FILES["airgapped-values.yaml"]))

    assert [i for i in used if not i.startswith("registry.example.internal:5000/mirror/")] == []


def test_without_a_mirror_each_image_keeps_its_registry(renderer: Renderer) -> None:
    used = images(renderer.render(None, "--set=image.registry=a.example"))

    assert {image.partition("/")[0] for image in used} == {"a.example", "ghcr.io"}


def container_images(spec: JsonValue) -> set[str]:
    """Return every image of a RayClusterSpec."""
    return set(_named_image(spec))


def classes_of(objects: list[Object]) -> dict[str, JsonValue]:
    """Return the classes that the chart gives the controller."""
    (config,) = (each for each in of_kind(objects, "ConfigMap") if "classes.yaml" in str(each))
    classes: dict[str, JsonValue] = yaml.safe_load(text(config, "data", "classes.yaml"))
    return classes


def test_a_class_of_an_image_has_it_in_a_group_with_an_image_of_its_own_too(
    whole: Renderer,
) -> None:
    objects = whole.render(
        None,
        "--set-string=groups.cpu.image.tag=1.2-xgboost",
        "--set-string=controller.classImages.tensorflow.tag=1.2-tensorflow",
    )
    classes = classes_of(objects)

    assert container_images(classes["tensorflow"]) == {"ghcr.io/trainshed/app:1.2-tensorflow"}
    assert "ghcr.io/trainshed/app:1.2-xgboost" in container_images(classes["default"])


def test_another_repository_leaves_the_digest_of_the_first_one_out(whole: Renderer) -> None:
    objects = whole.render(
        None, f"--set=image.digest=sha256:{'a' * 64}", "--set=groups.gpu.image.repository=team/app"
    )

    (own,) = {image for image in images(objects) if image.startswith("ghcr.io/team/app")}
    assert own.startswith("ghcr.io/team/app:")


def test_a_class_of_another_image_is_the_default_one_with_that_image(whole: Renderer) -> None:
    objects = whole.render(
        None,
        "--set-string=controller.classImages.xgboost.tag=1.2-xgboost",
        "--set=controller.classImages.own.repository=team/app",
    )
    classes = classes_of(objects)

    assert container_images(classes["xgboost"]) == {"ghcr.io/trainshed/app:1.2-xgboost"}
    (own,) = container_images(classes["own"])
    assert own.startswith("ghcr.io/team/app:")
    (usual,) = container_images(classes["default"])
    for name, image in (("xgboost", "ghcr.io/trainshed/app:1.2-xgboost"), ("own", own)):
        assert yaml.safe_dump(classes[name]).replace(image, usual) == yaml.safe_dump(
            classes["default"]
        )


def test_a_sidecar_of_a_class_of_another_image_has_its_own(whole: Renderer) -> None:
    objects = whole.render(
        None,
        "--set-string=controller.classImages.xgboost.tag=1.2-xgboost",
        "--set=head.sidecars[0].name=logs,head.sidecars[0].image=example.com/logs:1",
    )

    images = container_images(classes_of(objects)["xgboost"])

    assert images == {"ghcr.io/trainshed/app:1.2-xgboost", "example.com/logs:1"}


def test_a_group_of_another_image_has_it_and_no_other_has(whole: Renderer) -> None:
    digest = f"sha256:{'a' * 64}"
    objects = whole.render(
        None, f"--set=image.digest={digest}", "--set-string=groups.gpu.image.tag=1.2-tensorflow"
    )
    (cluster,) = of_kind(objects, "RayCluster")
    found = {
        str(group["groupName"]): container_images(group)
        for group in rows(cluster, "spec", "workerGroupSpecs")
    }

    assert found == {
        "gpu": {"ghcr.io/trainshed/app:1.2-tensorflow"},
        "cpu": {f"ghcr.io/trainshed/app@{digest}"},
    }


def test_the_page_builds_the_images_that_a_release_names(renderer: Renderer) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    [names] = re.findall(r'^\$ make images NAME="(.+)"$', page, re.MULTILINE)

    built = {image.reference for image in list_images() if image.name in names.split()}

    assert built == set(images(renderer.render()))
    assert built == set(re.findall(r"ghcr\.io/trainshed/[a-z]+:[\w.]+\w", page))


def test_the_page_pushes_the_images_that_a_release_with_its_options_names(
    renderer: Renderer,
) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    options = re.findall(r"--set (\S*image\.registry=[\w./-]+)", page)

    named = images(renderer.render(None, *(f"--set={option}" for option in options)))

    assert set(re.findall(r"^\$ docker push (\S+)$", page, re.MULTILINE)) == set(named)
