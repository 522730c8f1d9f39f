"""Identity of a run: what changes it, what does not, and how a change is shown."""

import json
from pathlib import Path
from random import Random
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_run
from tests.builders_later import make_later_spec
from trainshed_api.loading import Document
from trainshed_api.spechash import diff, hashed_part, same_training, spec_hash, training_hash


class Recorded(TypedDict):
    """A spec and the hash that the first release gave it."""

    spec: Document
    hash: str


# Written down once by the first release's own code; no line of it may change.
RECORDED: dict[str, Recorded] = json.loads(
    (Path(__file__).parent / "first_hashes.json").read_text(encoding="utf-8")
)


SAME: dict[str, Document] = {
    "a default written out": {"batchSize": 64, "precision": "float32", "config": {}},
    "an integral float": {"seed": 0.0},
    "more epochs": {"epochs": 9},
    "more workers": {"workers": {"count": 4}},
    "another storage": {"storage": "elsewhere"},
    "other checkpoints": {"checkpoint": {"keep": 9}},
    "an environment variable": {"env": {"A": "b"}},
    "more CPUs for the data": {"data": make_data(cpus=8)},
    "another place for the data": {"data": make_data(placement="big")},
    "more CPUs for a task": {"data": make_data(make_dataset(task={"cpus": 2, "memory": "1Gi"}))},
    "another cache": {"data": make_data(make_dataset(cache="none"))},
}
OTHER: dict[str, Document] = {
    "another program": {"train": "other:train"},
    "another config": {"config": {"a": 1}},
    "another batch": {"batchSize": 32},
    "another precision": {"precision": "bfloat16"},
    "products that are rounded": {"precision": "tensorfloat32"},
    "another seed": {"seed": 1},
    "another loader": {"data": make_data(loader="torch")},
    "other data": {"data": make_data(make_dataset(read={"format": "parquet", "path": "b"}))},
    "another transform": {"data": make_data(make_dataset(transforms=[{"use": "m:f"}]))},
    "another function of batches": {
        "data": make_data(make_dataset(feed={"collate": {"use": "m:f"}}))
    },
    "another order": {"data": make_data(make_dataset(shuffle={"mode": "global"}))},
}


def base(**spec: JsonValue) -> str:
    """Return the hash of a spec with data."""
    return spec_hash(make_run(**({"data": make_data()} | spec)).spec)


@pytest.mark.parametrize("case", SAME)
def test_same_training_has_the_same_hash(case: str) -> None:
    assert base(**SAME[case]) == base()


def test_the_deprecated_number_of_processes_is_in_no_hash() -> None:
    plain, more = (make_data(loader="torch", loaderProcesses=number) for number in (0, 4))
    assert base(data=plain) == base(data=more)


def test_what_a_transform_does_not_say_is_in_no_hash() -> None:
    plain: JsonValue = {"use": "m:f"}
    said: JsonValue = {"use": "m:f", "batchFormat": "numpy", "init": {}, "by": [], "orderBy": []}
    first, second = (make_data(make_dataset(transforms=[each])) for each in (plain, said))
    assert base(data=first) == base(data=second)


@pytest.mark.parametrize("case", OTHER)
def test_other_training_has_another_hash(case: str) -> None:
    assert base(**OTHER[case]) != base()


def test_hash_is_the_same_in_every_release() -> None:
    # A stored run must find its hash again: change this only together with a migration.
    assert base(config={"a": 0.1, "b": [1, "é"]}) == (
        "9ddc65e92b3e37cc3361219f048226142e19b98773b9fe590c21d2335095eb3f"
    )


@pytest.mark.parametrize("name", RECORDED)
def test_hash_of_an_old_spec_is_that_of_the_first_release(name: str) -> None:
    # Fails where a field is added to what is hashed, renamed, taken away or given another default.
    assert spec_hash(make_run(**RECORDED[name]["spec"]).spec) == RECORDED[name]["hash"]


@pytest.mark.parametrize("name", RECORDED)
def test_a_later_release_s_fields_change_no_hash_while_nobody_sets_them(name: str) -> None:
    spec = RECORDED[name]["spec"]

    later = make_later_spec(**spec)

    assert "swap" in later.to_dict()
    assert spec_hash(later) == RECORDED[name]["hash"]
    assert training_hash(later) == training_hash(make_run(**spec).spec)


LATER: dict[str, tuple[JsonValue, bool]] = {
    "a value": ({"layout": "columns"}, False),
    "a value of a section": ({"section": {"depth": 4}}, False),
    "a section that may be left out": ({"choice": {}}, False),
    "a default written out": ({"layout": "rows", "section": {"depth": 3}}, True),
    "what only sets speed": ({"pin": False, "section": {"threads": 8}}, True),
}


@pytest.mark.parametrize("case", LATER)
def test_a_later_field_is_hashed_where_it_makes_another_training(case: str) -> None:
    feed, same = LATER[case]
    spec = make_run(data=make_data()).spec

    later = make_later_spec(data=make_data(make_dataset(feed=feed)))

    assert (spec_hash(later) == spec_hash(spec)) is same
    assert (training_hash(later) == training_hash(spec)) is same


@pytest.mark.parametrize("later", [{"swap": "all"}, {"section": {"depth": 4}}])
def test_a_later_field_of_the_spec_itself_is_hashed_where_it_is_set(later: Document) -> None:
    assert spec_hash(make_later_spec(**later)) != spec_hash(make_run().spec)


def test_what_only_sets_speed_is_the_same_training_under_another_hash() -> None:
    slow, fast = (
        make_run(data=make_data(make_dataset(feed={"prefetchBatches": batches}))).spec
        for batches in (0, 8)
    )

    assert same_training(fast, spec_hash(slow), training_hash(slow))
    assert diff(hashed_part(slow), hashed_part(fast)) == []
    # A release that knew no better wrote this alone, and reads this alone.
    assert spec_hash(fast) != spec_hash(slow)
    assert not same_training(fast, spec_hash(slow), "")
    assert same_training(slow, spec_hash(slow), "")


def test_a_chosen_shuffle_has_the_hash_of_the_default_of_earlier_releases() -> None:
    """Their runs have `none` written out; which mode a run began with is in its run.json."""
    chosen, none, files = (
        make_run(data=make_data(make_dataset(shuffle={"mode": mode}))).spec
        for mode in ("auto", "none", "files")
    )

    assert spec_hash(chosen) == spec_hash(none) != spec_hash(files)
    assert training_hash(chosen) == training_hash(none) != training_hash(files)
    assert diff(hashed_part(chosen), hashed_part(files)) == [
        'spec.data.datasets.train.shuffle.mode: "none" -> "files"'
    ]


def test_another_training_is_no_other_s_under_either_hash() -> None:
    one, other = make_run(seed=1).spec, make_run(seed=2).spec

    assert not same_training(one, spec_hash(other), training_hash(other))
    assert not same_training(one, "", "")


def test_entrypoint_is_hashed_without_what_it_refuses() -> None:
    assert hashed_part(make_run(entrypoint=["python", "x.py"]).spec) == {
        "entrypoint": ["python", "x.py"],
        "framework": "torch",
        "seed": 0,
    }


@given(st.dictionaries(st.text("abcd", min_size=1), st.integers(-9, 9), min_size=1), st.randoms())
def test_hash_ignores_order_of_keys_and_spelling_of_integers(
    config: dict[str, int], random: Random
) -> None:
    keys = random.sample(list(config), len(config))
    shuffled: dict[str, JsonValue] = {key: float(config[key]) for key in keys}
    plain: dict[str, JsonValue] = dict(config.items())

    assert base(config=shuffled) == base(config=plain)


DIFFS: dict[str, tuple[Document, Document, list[str]]] = {
    "nothing": ({}, {}, []),
    "a value": (
        {"config": {"learningRate": 0.001}},
        {"config": {"learningRate": 0.01}},
        ["spec.config.learningRate: 0.001 -> 0.01"],
    ),
    "a new value": (
        {"config": {"a": 1}},
        {"config": {"a": 1, "b": "x"}},
        ['spec.config.b: (not set) -> "x"'],
    ),
    "a value that is gone": (
        {"config": {"a": 1, "b": "x"}},
        {"config": {"a": 1}},
        ['spec.config.b: "x" -> (not set)'],
    ),
    "an item of a list": (
        {"config": {"a": [1, 2]}},
        {"config": {"a": [1, 3]}},
        ["spec.config.a[1]: 2 -> 3"],
    ),
    "a list that was empty": (
        {"config": {"a": []}},
        {"config": {"a": [1]}},
        ["spec.config.a: [] -> (not set)", "spec.config.a[0]: (not set) -> 1"],
    ),
    "another spelling": ({"seed": 5}, {"seed": 5.0}, []),
}


@pytest.mark.parametrize("case", DIFFS)
def test_difference_names_path_and_both_values(case: str) -> None:
    old, new, want = DIFFS[case]

    assert diff(hashed_part(make_run(**old).spec), hashed_part(make_run(**new).spec)) == want
