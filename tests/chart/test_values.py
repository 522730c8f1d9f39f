"""Every value is documented where it stands, known to the schema, and in the README."""

import json
import re
from pathlib import Path

import pytest
from pydantic import JsonValue

from hack.chart.helm import CHART, ROOT
from hack.chart.readme import fill_readme, render_table
from hack.chart.values import Value, read_values
from tests.chart.rendering import at, table

VALUES = read_values(CHART / "values.yaml")
SCHEMA: JsonValue = json.loads((CHART / "values.schema.json").read_text())
# What other people define: Kubernetes' own structures, maps of anything, and KubeRay's chart.
OPEN = {"affinity", "classes", "dns", "to", "ports", "global", "kuberay-operator"}


def test_values_are_read_with_their_comments(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(
        "# A whole section.\n"
        "a:\n"
        "  # First line,\n"
        "  # second line.\n"
        '  b: "1"\n'
        "  c: {}\n"
        "# A list.\n"
        "d:\n"
        "  - {x: 1}\n"
        "  # Not a comment of e.\n"
        "\n"
        "# Last.\n"
        "e: 2.60.0\n"
    )

    assert read_values(file) == [
        Value("a.b", '"1"', "First line, second line."),
        Value("a.c", "{}", ""),
        Value("d", "- {x: 1}", "A list."),
        Value("e", "2.60.0", "Last."),
    ]


def test_every_value_says_what_it_does() -> None:
    assert [value.path for value in VALUES if not value.comment.endswith((".", ")"))] == []


@pytest.mark.parametrize("value", VALUES, ids=[value.path for value in VALUES])
def test_every_value_is_in_the_schema(value: Value) -> None:
    schema = SCHEMA
    for key in value.path.split("."):
        schema = _resolve(schema)
        inner = table(schema, "properties").get(key, at(schema, "additionalProperties"))
        for pattern, named in table(schema, "patternProperties").items():
            inner = named if re.match(pattern, key) else inner
        assert isinstance(inner, dict), f"{value.path}: the schema does not know {key}"
        schema = inner


def _resolve(schema: JsonValue) -> JsonValue:
    reference = at(schema, "$ref")
    if not isinstance(reference, str):
        return schema
    return at(SCHEMA, *reference.removeprefix("#/").split("/"))


def test_the_schema_is_closed_wherever_it_is_ours() -> None:
    def walk(schema: JsonValue, name: str) -> list[str]:
        found = []
        if isinstance(schema, dict):
            kinds = schema.get("type")
            is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
            if is_object and "additionalProperties" not in schema and name not in OPEN:
                found.append(name)
            for key, inner in schema.items():
                is_ours = key not in {"items", "properties", "additionalProperties"}
                found += walk(inner, key if is_ours else name)
        elif isinstance(schema, list):
            for inner in schema:
                found += walk(inner, name)
        return found

    assert walk(SCHEMA, "") == []


def test_the_readme_shows_the_values_as_they_are() -> None:
    readme = (CHART / "README.md").read_text()

    assert fill_readme(readme, CHART / "values.yaml") == readme, "run `make generate`"


def test_a_table_keeps_its_columns() -> None:
    assert "| `a` | `b` | this \\| that |" in render_table([Value("a", "b", "this | that")])


def test_a_readme_without_its_marks_is_said() -> None:
    with pytest.raises(SystemExit, match="the chart's README lacks <!-- values -->"):
        fill_readme("nothing here", CHART / "values.yaml")


def test_every_example_opens_with_what_it_is_for() -> None:
    for path in (ROOT / "charts" / "trainshed" / "ci").iterdir():
        assert path.read_text().startswith("# "), path.name
