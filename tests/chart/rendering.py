"""The chart's objects, as the tests of this folder look at them."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import JsonValue

from hack.chart.helm import CHART, render_chart

Object = dict[str, JsonValue]
# Other people's kinds that `helm template` is told of; an upgrade need not name its storage.
OPTIONS = ("--api-versions=monitoring.coreos.com/v1", "--is-upgrade")
VALUES_FILES = {path.name: path for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def at(value: JsonValue, *path: str | int) -> JsonValue:
    """Return what lies at a path of keys and positions; None where it ends early."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def table(value: JsonValue, *path: str | int) -> Object:
    """Return the mapping at a path, empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def rows(value: JsonValue, *path: str | int) -> list[Object]:
    """Return the list of mappings at a path, empty where there is none."""
    found = at(value, *path)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def text(value: JsonValue, *path: str | int) -> str:
    """Return the text at a path."""
    found = at(value, *path)
    assert isinstance(found, str), f"{path} is {found!r}"
    return found


@dataclass
class Renderer:
    """Renders values; the same values only once."""

    helm: str
    chart: Path
    _rendered: dict[tuple[str, ...], list[Object]] = field(default_factory=dict)

    def render_text(
        self,
        values: Path | None,
        *options: str,
        release: str = "trainshed",
        namespace: str = "trainshed",
    ) -> str:
        """Return what `helm template` prints for a values file."""
        return render_chart(
            self.helm,
            self.chart,
            *OPTIONS,
            *options,
            values=(values,) if values else (),
            release=release,
            namespace=namespace,
        )

    def render(
        self,
        values: Path | None = None,
        *options: str,
        release: str = "trainshed",
        namespace: str = "trainshed",
    ) -> list[Object]:
        """Return the objects of a values file."""
        key = (str(values), *options, release, namespace)
        if key not in self._rendered:
            rendered = self.render_text(values, *options, release=release, namespace=namespace)
            # 200 KB of text take Python's own loader half a second.
            documents = yaml.load_all(rendered, Loader=yaml.CSafeLoader)
            self._rendered[key] = [document for document in documents if document]
        return self._rendered[key]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Return the objects of one kind."""
    return [thing for thing in objects if thing["kind"] == kind]


def name_of(thing: Object) -> str:
    """Return Kind/name."""
    return f"{thing['kind']}/{text(thing, 'metadata', 'name')}"
