"""A reader of Ray Data's that cannot do what it is asked for is refused before anything starts."""

import ast
import inspect
import sys
from pathlib import Path

import pytest
import ray.data
from pydantic import JsonValue

from tests.app.data.builders_plan import FUNCTIONS, make_plan
from trainshed.data.loader.ray_readers import PACKAGES, find_reader, is_read_by_one_task, object_of
from trainshed_api.errors import SpecError
from trainshed_api.syntax import parse_python

FIELD = "spec.data.datasets.train.read.reader"
WRONG: dict[str, tuple[str, dict[str, object], str]] = {
    "no such reader": ("read_sequel", {}, "reader: got read_sequel; expected one of .*read_sql"),
    "no such argument": (
        "read_sql",
        {"query": "x"},
        "read.options: got .*; expected keyword arguments of ray.data.read_sql: sql, connection",
    ),
    "no such function": (
        "read_sql",
        {"sql": "x", "connection_factory": f"{FUNCTIONS}:absent"},
        "read.options.connection_factory: got .*absent; expected a name in",
    ),
    "an object of a program": (
        "from_huggingface",
        {"dataset": "imdb"},
        rf"{FIELD}: got from_huggingface; expected read.use with a function of yours that calls "
        "it: no file can hold its dataset$",
    ),
    "an object that is not there either": ("from_pandas", {}, "no file can hold its dfs$"),
}


@pytest.mark.parametrize(("name", "options", "want"), WRONG.values(), ids=WRONG)
def test_a_reader_that_cannot_be_called_is_refused(
    name: str, options: dict[str, object], want: str
) -> None:
    with pytest.raises(SpecError, match=want):
        find_reader(f"ray.data:{name}", options, FIELD)


def readers() -> dict[str, str | None]:
    """Return all readers of Ray Data's, and the argument that has to be an object."""
    found = {name: getattr(ray.data, name) for name in offered()}
    return {name: object_of(reader) for name, reader in found.items() if callable(reader)}


def offered() -> list[str]:
    return [name for name in dir(ray.data) if name.startswith(("read_", "from_"))]


def test_what_takes_plain_values_is_a_reader_and_nothing_else() -> None:
    plain = {name for name, argument in readers().items() if argument is None}

    assert {name for name in readers() if name.startswith("read_")} - plain == {"read_datasource"}
    assert {name for name in plain if name.startswith("from_")} == {"from_items"}


def test_readers_that_no_file_can_call_are_not_offered() -> None:
    with pytest.raises(SpecError, match="from_items") as refused:
        find_reader("ray.data:absent", {}, FIELD)

    assert "from_pandas" not in str(refused.value)


def test_a_function_that_is_named_is_a_plain_value() -> None:
    options = {"sql": "select 1", "connection_factory": f"{FUNCTIONS}:connected"}

    assert find_reader("ray.data:read_sql", options, FIELD) is ray.data.read_sql


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_of_a_reader_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES[name]:
        monkeypatch.setitem(sys.modules, package.module, None)
        monkeypatch.setitem(sys.modules, package.module.partition(".")[0], None)
    names = [package.name for package in PACKAGES[name]]

    with pytest.raises(SpecError) as refused:
        find_reader(f"ray.data:{name}", {}, FIELD)

    said = str(refused.value)
    assert said.startswith(f"{FIELD}: got {name}; expected it with the package")
    assert all(each in said for each in names)


def test_how_to_install_several_packages_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymongo", None)
    monkeypatch.setitem(sys.modules, "pymongoarrow", None)

    with pytest.raises(
        SpecError,
        match=r"expected it with the packages pymongo, pymongoarrow installed: pip install pymongo "
        r"pymongoarrow, or in a cluster code\.pip: \[pymongo, pymongoarrow\] or an image that has "
        "them$",
    ):
        find_reader("ray.data:read_mongo", {}, FIELD)


def test_a_package_that_is_a_part_of_another_is_missing_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)

    with pytest.raises(SpecError, match="pip install google-cloud-bigquery google-cloud-bigquery-"):
        find_reader("ray.data:read_bigquery", {"project_id": "mine"}, FIELD)


# Of lerobot[dataset], where it has films.
BROUGHT_BY_OTHERS = {"av", "torchcodec"}


def test_every_package_that_ray_looks_for_while_it_reads_is_known() -> None:
    folder = Path(inspect.getfile(ray.data)).parent / "_internal" / "datasource"
    calls = [
        node
        for file in folder.glob("*_datasource.py")
        for node in ast.walk(parse_python(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "_check_import"
    ]
    looked_for = {
        str(keyword.value.value).partition(".")[0]
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "module" and isinstance(keyword.value, ast.Constant)
    }
    known = {each.module.partition(".")[0] for some in PACKAGES.values() for each in some}

    assert looked_for
    assert looked_for - known == BROUGHT_BY_OTHERS - known
    assert PACKAGES.keys() <= readers().keys()


@pytest.mark.parametrize("options", [{}, {"shard_keys": ["id"]}], ids=["none", "keys"])
def test_one_task_reads_a_query_that_nothing_cuts(options: dict[str, JsonValue]) -> None:
    plan = make_plan(None, read={"reader": "read_sql", "options": options})

    assert plan.use
    assert is_read_by_one_task(plan.use) == (not options)
