"""Rows of any length become batches by a user's function: the same ones however they come."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data import collate_functions
from tests.app.data.builders_plan import (
    MemoryBlocks,
    UncountedMemory,
    make_mix,
    make_pass,
    make_plan,
    shuffles,
    write_rows,
)
from tests.app.data.collate_functions import Boxes, Padded, tokens_of
from trainshed.data.loader.batch_structure import take_apart
from trainshed.data.loader.batches import Batch, Feed
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sampler.first_pass import UNKNOWN
from trainshed.data.sampler.stage_time import BATCH, COLLATE, StageKey
from trainshed.data.sources.collate import collate
from trainshed.data.sources.column_arrays import Array, Columns, as_objects, join, nbytes
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.worker.step import parts_of

HERE = collate_functions.__name__
GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS = 81
RAGGED: JsonValue = [{"use": f"{HERE}:ragged"}]
SHUFFLES = shuffles(13)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


def by(name: str, **feed: JsonValue) -> JsonValue:
    """Return a feed that collates."""
    return {"collate": {"use": f"{HERE}:{name}"}, **feed}


def ragged_plan(folder: Path, name: str = "padded", **fields: JsonValue) -> DatasetPlan:
    """Return a plan of ragged rows that a function makes batches of."""
    fields = {"cache": "none", "transforms": RAGGED, "feed": by(name), **fields}
    return make_plan(folder, row_bytes=2.0**20, **fields)  # type: ignore[arg-type]


def batches_of(plan: DatasetPlan, at: EpochPass, rank: int = 0, parts: int = 1) -> list[Batch]:
    return list(Feed(plan, MemoryBlocks(plan, rank), rank).batches(at, most_parts=parts))


def padded_of(batches: list[Batch]) -> list[tuple[list[list[int]], list[int], list[str]]]:
    """Return what is in batches that `padded` made."""
    made = [cast("Padded", batch.given) for batch in batches]
    return [(each.tokens.tolist(), each.ids.tolist(), each.words) for each in made]


@pytest.mark.parametrize("mode", SHUFFLES)
def test_every_cache_makes_the_same_of_them_from_any_step_on(folder: Path, mode: str) -> None:
    caches = ["none", "objects", *(["workers"] if mode in ("none", "local") else [])]
    last: JsonValue = by("padded", lastBatch="keep")
    for rank in (0, 1, 2):
        want = None
        for cache in caches:
            shuffle = SHUFFLES[mode]
            plan = ragged_plan(folder, cache=cache, shuffle=shuffle, feed=last)
            whole = padded_of(batches_of(plan, make_pass(world_size=3, epoch=1), rank))
            want = want or whole
            assert whole == want, cache
            for step in (1, 4, len(whole)):
                at = make_pass(world_size=3, epoch=1, first_step=step)
                assert padded_of(batches_of(plan, at, rank)) == want[step:], (cache, step)


def test_rows_that_nobody_has_counted_are_collated_as_they_come(folder: Path) -> None:
    odd: JsonValue = [{"use": "tests.app.data.sample_functions:odd_rows"}]
    transforms = [*cast("list[JsonValue]", odd), *cast("list[JsonValue]", RAGGED)]
    plan = make_plan(
        folder,
        keeps_rows=False,
        may_learn=True,
        cache="none",
        transforms=transforms,
        feed=by("padded", lastBatch="keep"),
    )
    assert plan.source
    blocks = UncountedMemory(plan, np.full(len(plan.source.fragments), UNKNOWN, dtype=np.int64))
    feed = Feed(plan, MemoryBlocks(plan, 0), 0, uncounted=blocks)

    got = padded_of(list(feed.batches(make_pass(world_size=1))))

    assert [number for _, ids, _ in got for number in ids] == list(range(1, ROWS, 2))


def test_a_function_may_be_a_class_with_a_constructor(folder: Path) -> None:
    feed: JsonValue = {"collate": {"use": f"{HERE}:Padder", "init": {"missing": -7}}}

    ((tokens, ids, _), *_) = padded_of(batches_of(ragged_plan(folder, feed=feed), make_pass()))

    assert ids[0] == 0
    assert set(tokens[0]) == {-7}


def test_lists_of_tensors_and_dataclasses_come_as_they_are_made(folder: Path) -> None:
    (first, *_) = batches_of(ragged_plan(folder, "seen"), make_pass(world_size=1, batch_size=4))

    ids, boxes = cast("tuple[torch.Tensor, Boxes]", first.given)
    assert ids.tolist() == [0, 1, 2, 3]
    assert [box.shape for box in boxes.by_row] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert boxes.about == ("word 0", "word 1", "word 2", "word 3")


# ------------------------------------------------------------------- counting


def test_each_part_of_a_step_is_made_by_itself(folder: Path) -> None:
    at = make_pass(world_size=2, batch_size=14)
    whole = batches_of(ragged_plan(folder), at)
    in_parts = batches_of(ragged_plan(folder), at, parts=3)

    for batch, of_parts in zip(whole, in_parts, strict=True):
        parts = list(parts_of(of_parts, 3, world_size=2))
        made = padded_of(parts)
        assert [(part.rows, part.total) for part in parts] == [(3, 14), (2, 14), (2, 14)]
        assert [len(ids) for _, ids, _ in made] == [3, 2, 2]
        assert [number for _, ids, _ in made for number in ids] == padded_of([batch])[0][1]
        for tokens, ids, _ in made:
            assert len(tokens[0]) == max(len(tokens_of(number)) for number in ids)


def test_a_worker_without_a_row_is_lent_one_and_in_evaluation_has_no_call(folder: Path) -> None:
    plan = ragged_plan(folder, feed=by("padded", lastBatch="keep"))

    trained = batches_of(plan, make_pass(world_size=3, batch_size=40), rank=2)
    evaluated = batches_of(plan, make_pass("exact", world_size=3, batch_size=40), rank=2)

    assert [batch.rows for batch in trained] == [batch.rows for batch in evaluated] == [13, 13, 0]
    assert [len(ids) for _, ids, _ in padded_of(trained)] == [13, 13, 1]
    assert [len(batch.nests) for batch in evaluated] == [1, 1, 0]


@pytest.mark.usefixtures("empty_ledger")
def test_what_the_function_takes_is_a_stage_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(batch: Columns) -> Columns:
        time.sleep(0.02)
        return {"id": batch["id"]}

    monkeypatch.setattr(collate_functions, "slow", slow, raising=False)

    rows = sum(batch.rows for batch in batches_of(ragged_plan(folder, "slow"), make_pass()))

    spent = STAGE_TIMER.take()
    assert spent[StageKey("train", COLLATE)].seconds >= 10 * 0.02
    assert spent[StageKey("train", COLLATE)].rows == spent[StageKey("train", BATCH)].rows == rows
    assert StageKey("train", BATCH) in spent


# ------------------------------------------------------------------ randomness


@pytest.mark.parametrize("kind", ["train", "exact"])
def test_what_it_draws_belongs_to_the_row(folder: Path, kind: str) -> None:
    def draws(
        world_size: int, first_step: int = 0, parts: int = 1, cache: str = "none"
    ) -> set[str]:
        plan = ragged_plan(folder, "drawn", cache=cache)
        at = make_pass(
            kind,  # type: ignore[arg-type]
            world_size=world_size,
            first_step=first_step,
        )
        found: set[str] = set()
        for rank in range(world_size):
            for batch in batches_of(plan, at, rank, parts):
                for part in parts_of(batch, parts, world_size) if batch.rows else ():
                    made = cast("dict[str, torch.Tensor]", part.given)
                    pairs = zip(made["id"].tolist(), made["draw"].tolist(), strict=True)
                    found |= set(map(str, pairs))
        return found

    whole = draws(1)

    assert len({pair.partition(",")[2] for pair in whole}) > ROWS // 2
    assert draws(2) == draws(2, parts=2) == draws(2, cache="workers") == whole
    assert draws(1, first_step=5) < whole


# --------------------------------------------------------------- what it is given


def given_to(plan: DatasetPlan, **columns: Array) -> Columns:
    rows = len(next(iter(columns.values())))
    made = collate(plan, columns, np.arange(rows, dtype=np.int64), seed=0, epoch=0)
    return cast("Columns", made)


def test_lists_of_a_file_are_arrays_whatever_they_lie_in(folder: Path, tmp_path: Path) -> None:
    boxes = [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]
    words = [["a"], [], ["b", "c"]]
    table = pa.table({"boxes": boxes, "words": words, "even": [[1, 2], [3, 4], [5, 6]]})
    pq.write_table(table, tmp_path / "part.parquet")
    plan = make_plan(tmp_path, cache="none", feed=by("by_column"))

    (batch,) = batches_of(plan, make_pass(world_size=1, batch_size=3))

    given = cast("dict[str, object]", batch.given)
    rows = cast("Array", given["boxes"])
    assert [row.tolist() for row in rows] == boxes
    assert [row.shape for row in rows] == [(2, 2), (0, 2), (1, 2)]
    assert [row.tolist() for row in cast("Array", given["words"])] == words
    # Numbers of one shape were one array, and became a tensor.
    assert cast("torch.Tensor", given["even"]).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_rows_of_one_shape_are_one_array_however_they_were_kept(folder: Path) -> None:
    plan = ragged_plan(folder, "by_column")
    rows = [np.arange(3), np.arange(3) + 5]

    one, other = (given_to(plan, x=array)["x"] for array in (np.stack(rows), as_objects(rows)))

    assert isinstance(one, torch.Tensor) is isinstance(other, torch.Tensor) is False
    assert one.dtype == other.dtype
    assert one.tolist() == other.tolist()


OBJECTS: dict[str, tuple[list[object], list[object]]] = {
    "lists": ([[1, 2], [3]], [[1, 2], [3]]),
    "texts": (["a", None], ["a", None]),
    "bytes": ([b"a", b""], [b"a", b""]),
    "empty lists alone": ([[], []], [[], []]),
    "mappings": ([{"a": [1]}, {}], [{"a": [1]}, {}]),
    "an array that is missing": ([np.arange(2), None], [[0, 1], None]),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_objects_keep_their_values(folder: Path, case: str) -> None:
    values, want = OBJECTS[case]
    found = given_to(ragged_plan(folder, "by_column"), x=as_objects(values))["x"]

    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in found]
    assert rows == want


def test_texts_are_objects_whatever_a_transform_made_of_them(folder: Path) -> None:
    found = given_to(ragged_plan(folder, "by_column"), x=np.array(["a", "word"]))["x"]

    assert (str(found.dtype), found.tolist()) == ("object", ["a", "word"])


@pytest.mark.parametrize("cache", ["none", "workers", "objects"])
def test_what_it_writes_stays_in_no_cache(folder: Path, cache: str) -> None:
    plan = ragged_plan(folder, "doubled_in_place", cache=cache)
    feed = Feed(plan, MemoryBlocks(plan, 0), 0)
    epochs = []
    for epoch in (0, 1):
        at = make_pass(world_size=1, epoch=epoch)
        made = [cast("dict[str, list[torch.Tensor]]", each.given) for each in feed.batches(at)]
        epochs.append([row.tolist() for each in made for row in each["tokens"]])

    assert epochs[0] == epochs[1]
    assert epochs[0][:4] == [[2 * token for token in tokens_of(number)] for number in range(4)]


def test_types_are_those_asked_for_before_it(folder: Path) -> None:
    feed = by("by_column", dtypes={"*": "float32", "id": "int16"})
    plan = ragged_plan(folder, feed=feed)
    boxes = as_objects([np.ones((2, 4)), np.ones((0, 4))])
    given = given_to(
        plan, id=np.arange(2), x=np.arange(2), boxes=boxes, word=as_objects(["a", "b"])
    )

    assert (str(given["id"].dtype), str(given["x"].dtype)) == ("int16", "float32")
    assert [str(row.dtype) for row in given["boxes"]] == ["float32", "float32"]
    assert given["word"].tolist() == ["a", "b"]


@pytest.mark.parametrize(("column", "said"), [("x", "300"), ("boxes", "301")])
def test_a_value_that_its_type_cannot_hold_is_an_error(
    folder: Path, column: str, said: str
) -> None:
    plan = ragged_plan(folder, feed=by("by_column", dtypes={column: "uint8"}))
    boxes = as_objects([np.ones((2, 4)), np.full((1, 4), 301.0)])

    want = rf"dtypes\.{column}: column {column}, row 1 of .* got {said}(\.0)?; expected 0 to 255"
    with pytest.raises(DataError, match=want):
        given_to(plan, id=np.arange(2), x=np.array([1, 300]), boxes=boxes)


def test_lists_whose_integers_numpy_would_round_are_an_error(folder: Path) -> None:
    plan = ragged_plan(folder, "by_column")

    with pytest.raises(DataError, match=rf"train: a row holds a list with {2**63 + 5} beside"):
        given_to(plan, x=as_objects([[1, 2], [2**63 + 5, -1]]))


def test_texts_that_are_to_have_a_type_are_an_error(folder: Path) -> None:
    plan = ragged_plan(folder, feed=by("padded", dtypes={"word": "int64"}))

    want = r"train\.feed\.dtypes\.word: column word holds values of str"
    with pytest.raises(DataError, match=want):
        batches_of(plan, make_pass())


def test_a_mix_of_datasets_with_rows_of_other_lengths_is_collated(tmp_path: Path) -> None:
    parts = {
        name: (
            make_plan(
                write_rows(tmp_path / name, ([20],), first=first),
                cache="none",
                transforms=[{"use": f"{HERE}:{name}"}, {"use": f"{HERE}:without_words"}],
            ),
            1.0,
        )
        for first, name in ((0, "ragged"), (1000, "even"))
    }
    plan = make_mix(parts, feed=by("listed"))

    batches = list(Feed(plan, LocalSource(plan), 0).batches(make_pass(world_size=1)))

    found: dict[int, list[int]] = {}
    for batch in batches:
        made = cast("dict[str, list[torch.Tensor]]", batch.given)
        found |= {
            int(number): row.tolist()
            for number, row in zip(made["id"], made["tokens"], strict=True)
        }
    assert {number // 1000 for number in found} == {0, 1}
    assert all(
        tokens == (tokens_of(number) if number < 1000 else [0, 1, 2])
        for number, tokens in found.items()
    )


# --------------------------------------------------------------------- errors


def test_an_error_names_the_field_and_the_function(folder: Path) -> None:
    feed: JsonValue = {"collate": {"use": f"{HERE}:picky", "options": {"bad": [9]}}}
    plan = ragged_plan(folder, feed=feed)

    want = rf"train\.feed\.collate\.use: {HERE}:picky raised ValueError: row 9 is bad"
    with pytest.raises(DataError, match=want):
        batches_of(plan, make_pass(world_size=1))


def test_a_tensor_that_lies_on_a_device_is_an_error(folder: Path) -> None:
    want = r"collate\.use: .*:elsewhere returned a tensor on meta; expected it on the CPU"
    with pytest.raises(DataError, match=want):
        batches_of(ragged_plan(folder, "elsewhere"), make_pass())


def test_rows_of_other_lengths_are_an_error_without_a_function(folder: Path) -> None:
    plan = make_plan(folder, cache="none", transforms=RAGGED)

    with pytest.raises(
        DataError, match=r"column word holds values of .*by feed\.collate, or leave"
    ):
        batches_of(plan, make_pass())


# ----------------------------------------------------------------------- nests


class Pair(NamedTuple):
    """A tuple with names."""

    one: object
    other: object


@dataclass(frozen=True)
class Frozen:
    """A dataclass that nobody may change."""

    one: object
    number: int = 3


def nests() -> st.SearchStrategy[object]:
    """Return nests of anything."""
    leaves = (
        st.builds(torch.full, st.just((2,)), st.integers(0, 9))
        | st.builds(np.full, st.just((2,)), st.integers(0, 9))
        | st.none()
        | st.integers()
        | st.text(max_size=2)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=2), inner, max_size=3)
            | st.dictionaries(st.text(max_size=2), inner, max_size=3).map(OrderedDict)
            | st.lists(inner, max_size=3).map(tuple)
            | st.builds(Pair, inner, inner)
            | st.builds(Frozen, inner)
        ),
        max_leaves=8,
    )


def said(value: object) -> str:
    """Return a nest in words; arrays are said as tensors are."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    match value:
        case Pair() | Frozen():
            fields = vars(value) if isinstance(value, Frozen) else value._asdict()
            return f"{type(value).__name__}({said(fields)})"
        case dict():
            return f"{type(value).__name__}({[(key, said(item)) for key, item in value.items()]})"
        case list() | tuple():
            return f"{type(value).__name__}({[said(item) for item in value]})"
    return repr(value)


@given(nests())
def test_a_nest_is_put_together_again_with_its_tensors_or_others(value: object) -> None:
    before = said(value)

    structure, tensors = take_apart(value, "0.")

    assert said(structure.filled(tensors)) == before
    assert all(name.startswith("0.") for name in structure.names)
    assert structure.names == tuple(tensors)
    others = {name: torch.tensor([7]) for name in tensors}
    assert said(structure.filled(others)).count("tensor([7])") == len(others)
    assert said(value) == before


def test_arrays_of_texts_are_no_tensors() -> None:
    words = as_objects(["a", "b"])

    structure, tensors = take_apart({"words": words, "x": np.arange(2)[::-1]}, "")

    assert [tensor.tolist() for tensor in tensors.values()] == [[1, 0]]
    made = cast("dict[str, object]", structure.filled(tensors))
    assert made["words"] is words


# --------------------------------------------------------------------- columns


def test_tables_with_rows_of_other_shapes_are_joined_row_by_row() -> None:
    ragged = as_objects([np.arange(2), np.arange(3)])

    joined = join([{"x": ragged}, {"x": np.zeros((2, 4))}, {"x": np.zeros((1, 5))}])["x"]

    assert [len(row) for row in joined] == [2, 3, 4, 4, 5]


def test_what_lies_in_objects_is_counted_as_their_size() -> None:
    rows = as_objects([np.zeros(1000), np.zeros(500), "four", as_objects([np.zeros(100)])])

    assert nbytes({"x": rows}) == rows.nbytes + 8 * 1600 + 4 + 8
