"""Names as long as they may be, and names that YAML takes for something else."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from hack.chart.helm import HelmError
from tests.chart.pods import expand_pods
from tests.chart.rendering import VALUES_FILES, Renderer, name_of, table, text
from trainshed_api.kubeyaml import parse_yaml

# What becomes a label or a name of DNS takes no more.
MOST = 63
LONGEST = "trainshed-" + "x" * 37
# Their names never become one, and carry that of the namespace.
LONG = {"ClusterRole", "CustomResourceDefinition"}


@pytest.mark.parametrize("file", VALUES_FILES)
def test_every_name_of_the_longest_release_is_short_enough(renderer: Renderer, file: str) -> None:
    objects = renderer.render(VALUES_FILES[file], release=LONGEST)

    for thing in objects:
        if thing["kind"] not in LONG:
            assert len(text(thing, "metadata", "name")) <= MOST, name_of(thing)
    for thing in [*objects, *expand_pods(objects)]:
        for label in table(thing, "metadata", "labels").values():
            assert len(str(label)) <= MOST, name_of(thing)


def test_a_longer_name_is_refused(renderer: Renderer) -> None:
    with pytest.raises(HelmError, match="of 48 characters; expected at most 47, because"):
        renderer.render_text(None, release=f"{LONGEST}x")


# Each is a right name, and unquoted no text to one reader of YAML or another.
PLAIN = {"name": "plain", "namespace": "team", "word": "word", "variable": "WORD"}
ODD = {"name": "y", "namespace": "1e3", "word": "no", "variable": "N"}
STILL_ODD = {"name": "n", "namespace": "123", "word": "1-2", "variable": "Y"}
BINARY = {"name": "null", "namespace": "0x1f", "word": "0o17", "variable": "ON"}


def values_of(words: dict[str, str]) -> dict[str, JsonValue]:
    word = words["word"]
    group: JsonValue = {"priorityClassName": word, "runtimeClassName": word}
    return {
        "fullnameOverride": words["name"],
        "ray": {"tokenSecret": word, "env": {words["variable"]: word}},
        "groups": {"gpu": {"enabled": False}, words["name"]: group},
        "storage": {"existingClaim": word},
        "networkPolicy": {"operatorNamespace": words["namespace"], "prometheusNamespace": word},
        "controller": {"sharedClusters": [word], "image": {"tag": word}},
        "image": {"tag": words["namespace"]},
        "kuberay-operator": {"enabled": False},
        "monitoring": {"podMonitors": {"enabled": True}, "prometheusRule": {"enabled": True}},
        "crds": {"install": False},
    }


def kinds(value: JsonValue, path: str = "") -> dict[str, str]:
    """Return the type of each leaf by its path, as Kubernetes reads it."""
    if isinstance(value, dict):
        inner = {key: item for key, item in value.items() if key != "classes.yaml"}
        found = [kinds(item, f"{path}.{key}") for key, item in inner.items()]
    elif isinstance(value, list):
        found = [kinds(item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        return {path: type(value).__name__}
    return {path: kind for each in found for path, kind in each.items()}


@pytest.mark.parametrize("words", [ODD, STILL_ODD, BINARY], ids=lambda words: words["namespace"])
def test_no_name_becomes_a_number_or_a_truth_value(
    renderer: Renderer, tmp_path: Path, words: dict[str, str]
) -> None:
    def read(spoken: dict[str, str]) -> dict[str, str]:
        values = tmp_path / "values.yaml"
        values.write_text(json.dumps(values_of(spoken)))
        place, release = spoken["namespace"], spoken["word"]
        rendered = renderer.render_text(values, namespace=place, release=release)
        return kinds(list(parse_yaml(rendered, "chart")))

    assert read(words) == read(PLAIN)
