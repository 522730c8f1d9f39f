"""What a run keeps of its datasets is held against the memory of each node."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import write_pictures
from tests.app.data.builders_plan import FUNCTIONS, write_rows
from tests.builders import make_data, make_dataset, make_run
from trainshed.planning.cache_memory import check_disk, kept_of
from trainshed.planning.cluster_capacity import ClusterNodes, Node
from trainshed.planning.explanation import explain_lines
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import ROWS, ROWS_LIST, RunFolder
from trainshed_api.errors import SpecError
from trainshed_api.names import NODE_GROUP_LABEL

MIB = 2**20
# 1,000 rows of 3,008 bytes are 2.9 MB, in 10 files.
GROUPS = [[100]] * 10
WIDTH = 750


def make_node(group: str, store: float, memory: float = 64) -> Node:
    """Return a node of 4 CPUs; sizes in MB."""
    total = {"CPU": 4.0, "memory": memory * MIB, "object_store_memory": store * MIB}
    return Node({NODE_GROUP_LABEL: group}, total, total)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_rows(folder / "rows", GROUPS, WIDTH)
    write_rows(folder / "narrow", GROUPS)
    return folder


def prepared(home: Path, nodes: Sequence[Node], **data: JsonValue) -> Prepared:
    """Return a run on a cluster; `data` has the fields of its dataset and `path`."""
    read: dict[str, JsonValue] = {"format": "parquet", "path": data.pop("path", "rows")}
    read |= {name: data.pop(name) for name in ("where",) if name in data}
    run = make_run(
        train="tests.app.processes:children",
        workers={"count": 2, "group": "gpu"},
        data=make_data({"read": read, **data}),
    )
    # It waits for nodes that are not there.
    return prepare(
        run, RunLocation(Disk(home), in_cluster=True, cluster=ClusterNodes(nodes, waits=True))
    )


@dataclass(frozen=True)
class Case:
    """A dataset, the nodes, and what is said."""

    dataset: dict[str, JsonValue]
    nodes: list[Node]
    want_cache: str
    want_notes: list[str] = field(default_factory=list)


LARGE, SMALL = make_node("cpu", 16), make_node("cpu", 2)
GPU, SMALL_GPU = make_node("gpu", 16), make_node("gpu", 2)
NONE: dict[str, JsonValue] = {"mode": "none"}
GLOBAL: dict[str, JsonValue] = {"mode": "global"}
LOCAL: dict[str, JsonValue] = {"mode": "local", "bufferSize": 100}
PINNED = (
    "dataset train: about 2.9 MB must fit in the object store of a node with 2 workers at once, "
    "which has 2.0 MB: what does not fit is kept in files, which is slow"
)
SPILLED = (
    "dataset train: about 2.9 MB go through the object store of the data's nodes, which is "
    "2.0 MB in all: what does not fit is spilled to disk"
)

CASES: dict[str, Case] = {
    "a global shuffle that each node with workers holds": Case(
        {"shuffle": GLOBAL}, [LARGE, GPU], "objects"
    ),
    "a global shuffle that only the nodes together hold": Case(
        {"shuffle": GLOBAL}, [LARGE, SMALL_GPU, SMALL_GPU], "none"
    ),
    "one that was asked for and no node with workers holds": Case(
        {"shuffle": GLOBAL, "cache": "objects"}, [LARGE, SMALL_GPU, GPU], "objects", [PINNED]
    ),
    "another split of what is kept in each epoch": Case(
        {"shuffle": {"mode": "blocks"}}, [LARGE, SMALL_GPU], "objects"
    ),
    "workers that have the memory": Case({"shuffle": NONE}, [LARGE, GPU], "workers"),
    "workers whose rows come through a store that is too small": Case(
        {"shuffle": NONE}, [SMALL, GPU], "none"
    ),
    "such workers when they were asked for": Case(
        {"cache": "workers"}, [SMALL, GPU], "workers", [SPILLED]
    ),
    "workers that load on one node what its store does not hold": Case(
        {"cache": "workers"}, [LARGE, SMALL_GPU], "workers", [PINNED]
    ),
    "workers that keep rows of which only reading tells how many": Case(
        {"cache": "workers", "where": "id >= 0"}, [SMALL, GPU], "workers", [SPILLED]
    ),
    "a small window of a local shuffle": Case(
        {"shuffle": LOCAL, "cache": "none"}, [LARGE, make_node("gpu", 2, memory=2)], "none"
    ),
    "a global shuffle that is sorted anew in each epoch": Case(
        {"shuffle": GLOBAL, "cache": "none"}, [SMALL, GPU], "none", [SPILLED]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_is_held_against_each_node(case: str, home: Path) -> None:
    dataset, nodes = CASES[case].dataset, CASES[case].nodes

    run = prepared(home, nodes, **dataset)

    assert run.plans["train"].cache == CASES[case].want_cache, run.plans["train"].reason
    assert list(run.notes) == CASES[case].want_notes


def test_nodes_that_are_still_to_come_are_not_counted_on(home: Path) -> None:
    plan = prepared(home, [LARGE], shuffle=GLOBAL).plans["train"]

    assert (plan.cache, "not known yet" in plan.reason) == ("none", True)


REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "windows of a local shuffle": (
        {"shuffle": {"mode": "local", "bufferSize": 400}, "cache": "none"},
        "spec.data.datasets.train.shuffle.bufferSize: got 400; expected less (a window has at "
        "least two steps of spec.batchSize): about 1.1 MB a worker x 2 workers on a node, which "
        "has 2.0 MB (dataset train)",
    ),
    "a share in each worker": (
        {"cache": "workers"},
        "spec.data.datasets.train.cache: got workers; expected objects, disk or none: about 1.4 "
        "MB a worker x 2 workers on a node, which has 2.0 MB (dataset train)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_node_s_memory_holds_is_refused_with_the_arithmetic(case: str, home: Path) -> None:
    dataset, want = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        prepared(home, [LARGE, make_node("gpu", 16, memory=2)], **dataset)

    assert str(caught.value) == want


def test_what_a_worker_may_not_hold_is_said(home: Path) -> None:
    nodes = [LARGE, make_node("gpu", 16, memory=2), GPU]

    run = prepared(home, nodes, cache="workers")

    assert list(run.notes) == [
        "dataset train: about 1.4 MB are kept in each worker, which has 1.0 MB: it may be killed"
    ]


def test_a_window_is_no_larger_than_what_a_worker_gets(home: Path) -> None:
    run = prepared(home, [LARGE, GPU], cache="none", shuffle={"mode": "local"})

    assert "  memory    about 1.4 MB in each worker" in list(explain_lines(run))


def test_the_windows_of_a_mix_are_counted_and_its_rows_are_kept_where_they_are_read(
    home: Path,
) -> None:
    read: JsonValue = {"format": "parquet", "path": "rows"}
    datasets: JsonValue = {
        "train": {"read": {"mix": {"a": 3, "b": 1}}, "shuffle": {"bufferSize": 100}},
        "a": {"read": read},
        "b": {"read": read, "cache": "none"},
    }
    run = make_run(
        train="tests.app.processes:children",
        workers={"count": 2, "group": "gpu"},
        data={"datasets": datasets},
    )
    place = RunLocation(Disk(home), in_cluster=True, cluster=ClusterNodes([LARGE, GPU], waits=True))

    lines = "\n".join(explain_lines(prepare(run, place)))

    assert "mix       75.00% from a\n  mix       25.00% from b\n" in lines
    assert "memory    about 0.4 MB in each worker" in lines
    assert "cache     objects: about 2.9 MB fit in the object store" in lines


@pytest.mark.parametrize(
    ("split", "batch_size", "buffer_size", "want"),
    [
        # Two windows of so many whole steps that the buffer's rows fit.
        (True, 100, 200, "about 0.6 MB"),
        (True, 70, 200, "about 0.4 MB"),
        # Of two steps at least, however small the buffer is.
        (True, 200, 10, "about 1.1 MB"),
        (True, 400, 10, "about 1.4 MB"),
        # A worker that gets all rows has its part of a step's number.
        (False, 200, 10, "about 1.1 MB"),
    ],
)
def test_a_window_has_at_least_two_steps(
    split: bool, batch_size: int, buffer_size: int, want: str, home: Path
) -> None:
    shuffle: JsonValue = {"mode": "local", "bufferSize": buffer_size}
    read: JsonValue = {"format": "parquet", "path": "rows"}
    dataset: dict[str, JsonValue] = {
        "read": read,
        "cache": "none",
        "shuffle": shuffle,
        "split": split,
    }
    run = make_run(
        train="tests.app.processes:children",
        batchSize=batch_size,
        workers={"count": 2, "group": "gpu"},
        data=make_data(dataset),
    )
    cluster = ClusterNodes([LARGE, GPU], waits=True)
    lines = list(
        explain_lines(prepare(run, RunLocation(Disk(home), in_cluster=True, cluster=cluster)))
    )

    assert f"  memory    {want} in each worker" in lines


def test_the_explanation_says_what_is_kept_where_and_what_may_not_fit(home: Path) -> None:
    run = prepared(home, [LARGE, SMALL_GPU], shuffle=GLOBAL, cache="objects")

    lines = list(explain_lines(run))

    assert "  memory    about 2.9 MB in the object stores of the data nodes" in lines
    stored = "in the object store of each node with a worker, at one time"
    assert f"  memory    about 2.9 MB {stored}" in lines
    assert f"note: {PINNED}" in lines


# -------------------------------------------------------------- rows that are made once

FIRSTS: dict[str, JsonValue] = {
    "use": f"{FUNCTIONS}:first_of_each",
    "kind": "groups",
    "by": ["id"],
}
# Of so many rows as no sample has.
WINDOWS: dict[str, JsonValue] = FIRSTS | {
    "use": "trainshed.transforms:windows",
    "options": {"length": 64, "columns": ["x"]},
}
GO_INTO_THEM = "groups are made once, and about 2.9 MB go into them, which the object store holds"
DO_NOT_FIT = "groups are made once, and of rows that go into them about 2.9 MB do not fit in the "
WHOLE: dict[str, tuple[dict[str, JsonValue], list[Node], str, str]] = {
    "that the object store holds": ({}, [LARGE, GPU], "objects", GO_INTO_THEM),
    "that it does not hold": (
        {},
        [SMALL, GPU],
        "disk",
        f"{DO_NOT_FIT}object store of the data's nodes",
    ),
    "that each node with workers would have to hold": (
        {"shuffle": GLOBAL},
        [LARGE, SMALL_GPU],
        "disk",
        f"{DO_NOT_FIT}object store of each node with workers (2.0 MB), where a global shuffle "
        "needs all rows",
    ),
    "that were asked for": ({"cache": "objects"}, [SMALL, GPU], "objects", "requested"),
}


@pytest.mark.parametrize("groups", [FIRSTS, WINDOWS], ids=["of rows", "that no sample fills"])
@pytest.mark.parametrize("case", WHOLE)
def test_groups_lie_on_disk_where_no_object_store_holds_them(
    home: Path, case: str, groups: JsonValue
) -> None:
    dataset, nodes, cache, reason = WHOLE[case]

    plan = prepared(home, nodes, transforms=[groups], **dataset).plans["train"]

    assert (plan.cache, plan.reason) == (cache, reason)


def test_groups_of_a_mix_tell_no_size_of_it(home: Path) -> None:
    read: JsonValue = {"format": "parquet", "path": "rows"}
    datasets: JsonValue = {
        "train": {"read": {"mix": {"a": 1}}},
        "a": {"read": read, "transforms": [FIRSTS]},
    }
    run = make_run(train="tests.app.processes:children", data={"datasets": datasets})
    place = RunLocation(Disk(home), in_cluster=True, cluster=ClusterNodes([LARGE, GPU], waits=True))

    plans = prepare(run, place).plans

    assert plans["a"].size is not None
    assert plans["train"].size is None


def test_groups_that_no_storage_may_hold_are_said_and_not_refused(home: Path) -> None:
    """Of what goes into them a function may make far less."""
    plans = prepared(home, [SMALL, GPU], transforms=[FIRSTS]).plans.values()

    (note,) = check_disk(plans, MIB // 2, "/runs")

    assert "dataset train: about 2.9 MB of rows are kept as parquet" in note
    assert "/runs has 0.5 MB left" in note


# ----------------------------------------------------------- rows on the run's storage

KEPT_ON_DISK = {
    "all of it": (3 * MIB, None),
    "some of it": (2 * MIB, "about 2.9 MB of rows are kept as parquet, .* has 2.0 MB left"),
}


@pytest.mark.parametrize(("free", "want"), KEPT_ON_DISK.values(), ids=KEPT_ON_DISK)
def test_rows_on_the_storage_are_held_against_its_room(
    home: Path, free: int, want: str | None
) -> None:
    plans = prepared(home, [LARGE, GPU], cache="disk").plans.values()

    notes = check_disk(plans, free, "/runs")

    assert [bool(re.search(want, note)) for note in notes] == [True] if want else notes == []


def test_rows_that_no_packing_makes_fit_are_refused(home: Path) -> None:
    plans = prepared(home, [LARGE, GPU], cache="disk").plans.values()

    want = "train.cache: got disk; expected objects or none, .*: about 2.9 MB .* 0.5 MB left"
    with pytest.raises(SpecError, match=want):
        check_disk(plans, MIB // 2, "/runs")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of one attempt whose rows do not go where there is half a MB."""
    monkeypatch.setattr("trainshed.planning.preflight.num_free", lambda _: MIB // 2)
    write_rows(tmp_path / "rows", GROUPS, WIDTH)
    run = RunFolder(Disk(tmp_path / "storage" / "local" / "digits"))
    run.claim("abc", fresh=False).close()
    return run


def test_rows_are_held_against_the_room_unless_an_attempt_goes_on_with_them(
    tmp_path: Path, run: RunFolder
) -> None:
    """Whatever an attempt had left of them passed for all rows."""
    rows = run.attempt(1) / ROWS / "train"
    (rows / "part-1").write("rows.parquet", b"half")

    with pytest.raises(SpecError, match=r"train.cache: got disk; .* 0.5 MB left"):
        on_disk(tmp_path)

    rows.write(ROWS_LIST, b"{}")
    with pytest.raises(SpecError, match=r"train.cache: got disk; .* 0.5 MB left"):
        on_disk(tmp_path)  # there is nothing to go on from

    (run.checkpoints(1) / "checkpoint").write("manifest.json", b"{}")
    assert list(on_disk(tmp_path).notes) == []
    with pytest.raises(SpecError, match=r"train.cache: got disk; .* 0.5 MB left"):
        on_disk(tmp_path, resume="never")


def test_what_an_attempt_deletes_first_is_room(tmp_path: Path, run: RunFolder) -> None:
    (run.attempt(1) / ROWS / "train" / "part-1").write("rows.parquet", bytes(3 * MIB))

    assert list(on_disk(tmp_path).notes) == []


def on_disk(home: Path, resume: str = "latest") -> Prepared:
    """Return a run that keeps its rows on its storage."""
    run = make_run(
        train="tests.app.processes:children",
        storage="storage",
        data=make_data(make_dataset(cache="disk")),
        checkpoint={"resume": resume},
    )
    cluster = ClusterNodes([LARGE, GPU], waits=True)
    return prepare(run, RunLocation(Disk(home), in_cluster=True, cluster=cluster))


# ------------------------------------------------------------------- how large rows are


def test_rows_of_many_places_tell_the_size_and_how_sure_it_is(home: Path) -> None:
    grown: JsonValue = [{"use": f"{FUNCTIONS}:growing"}]
    run = prepared(home, [LARGE, GPU], path="narrow", transforms=grown, cache="none")
    plan = run.plans["train"]

    # Rows have 8 bytes and 12, those of the second half 64 times 12.
    assert plan.size
    assert (plan.size.least, plan.size.most) == (20 * 1000, 776 * 1000)
    assert plan.size.likely == pytest.approx(398 * 1000)
    said = "\n".join(explain_lines(run))
    assert re.search(r"about 0\.4 MB \(\d+\.\d kB to 0\.7 MB\) in all", said)


def test_a_filter_that_drops_rows_further_on_is_found_before_the_start(home: Path) -> None:
    filtered: JsonValue = [{"use": f"{FUNCTIONS}:without_the_last"}]

    run = prepared(home, [LARGE, GPU], path="narrow", transforms=filtered, cache="none")

    assert run.plans["train"].changes_rows
    assert run.plans["train"].rows is None
    assert "rows counted in the first epoch" in "\n".join(explain_lines(run))


DECODED: JsonValue = [{"use": "trainshed.transforms:decode_image", "options": {"size": [8, 8]}}]


def of_pictures(
    folder: Path, datasets: Mapping[str, Mapping[str, int]], **others: JsonValue
) -> Prepared:
    """Look at a run of datasets of pictures, each with folders of so many; others: datasets."""
    of_files: dict[str, JsonValue] = {}
    for name, counts in datasets.items():
        write_pictures(folder / name, dict(counts))
        of_files[name] = {"read": {"format": "images", "path": name}, "transforms": DECODED}
    data: JsonValue = {"datasets": {**of_files, **others}}
    run = make_run(train="tests.app.processes:children", batchSize=4, data=data)
    return prepare(run, RunLocation(Disk(folder)))


THREE = {"ant": 2, "bee": 2, "cat": 2}
TWO = {"ant": 2, "cat": 2}
MIX: JsonValue = {"read": {"mix": {"one": 1, "two": 1}}}


def test_labels_that_mean_something_else_are_said(tmp_path: Path) -> None:
    """A folder that the test has not: all labels behind it are one less there."""
    notes = of_pictures(tmp_path, {"train": THREE, "valid": TWO}).notes

    want = r"valid.read.path: its 2 folders are not the 3 of train \(only in one of them: bee\)"
    assert [note for note in notes if re.search(want, note)]


def test_labels_of_a_mix_that_mean_different_things_are_refused(tmp_path: Path) -> None:
    """Two datasets gave one number to different classes, and trained a model on both."""
    with pytest.raises(SpecError) as refused:
        of_pictures(tmp_path, {"one": THREE, "two": TWO}, train=MIX)

    want = (
        "train.read.mix.two: got label 1 for the folder cat; expected the folders of one, where it"
    )
    assert f"{want} is the folder bee: " in str(refused.value)


def test_labels_that_a_part_of_a_mix_has_at_the_end_are_refused_too(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"mix\.two: got label 1 for no folder; expected the folders"
    ):
        of_pictures(tmp_path, {"one": TWO, "two": {"ant": 2}}, train=MIX)


def test_labels_beside_a_mix_are_held_against_those_of_its_parts(tmp_path: Path) -> None:
    notes = of_pictures(tmp_path, {"one": THREE, "two": THREE, "valid": TWO}, train=MIX).notes

    said = [note for note in notes if "folders are not" in note]
    assert len(said) == 1
    assert "valid.read.path: its 2 folders are not the 3 of train" in said[0]


def test_a_mix_without_labels_has_any_folders(tmp_path: Path) -> None:
    write_pictures(tmp_path / "one", THREE)
    write_pictures(tmp_path / "two", TWO)
    parts: dict[str, JsonValue] = {
        name: {
            "read": {"format": "images", "path": name, "columns": ["image"]},
            "transforms": DECODED,
        }
        for name in ("one", "two")
    }

    assert of_pictures(tmp_path, {}, **parts, train=MIX).plans["train"].parts


def test_rows_of_which_a_transform_makes_more_are_counted_as_so_many(home: Path) -> None:
    """100 of each: 1,000 narrow rows of 20 bytes are 1.9 MB, a worker's share 1 of 4 MB."""
    many: JsonValue = [{"use": f"{FUNCTIONS}:hundredfold"}]
    workers = make_node("gpu", 16, memory=7)

    few = prepared(home, [LARGE, workers], path="narrow", shuffle=NONE).plans["train"]
    run = prepared(home, [LARGE, workers], path="narrow", transforms=many, shuffle=NONE)
    plan = run.plans["train"]
    kept = kept_of(replace(plan, cache="workers"), 2, 64)

    assert (few.cache, few.growth) == ("workers", 1.0)
    assert few.size
    assert (plan.cache, plan.growth, plan.likely_rows) == ("objects", 100.0, 100_000)
    assert plan.size == few.size.part(100)
    assert plan.row_bytes == pytest.approx(few.row_bytes)
    assert kept
    assert kept.worker == plan.size.part(0.5)
    with pytest.raises(SpecError, match=r"train.cache: got disk"):
        check_disk([replace(plan, cache="disk")], MIB // 3, "/runs")


def test_functions_are_tried_on_rows_that_are_chosen(home: Path) -> None:
    """The first row was given to them, too, though nobody is to read it."""
    broken: JsonValue = [{"use": f"{FUNCTIONS}:broken", "options": {"at": 0}}]

    run = prepared(home, [LARGE, GPU], path="narrow", transforms=broken, where="id >= 40")

    assert run.plans["train"].size


def test_rows_of_which_no_sample_shows_one_are_no_fault(home: Path) -> None:
    read: dict[str, JsonValue] = {"path": "narrow", "where": "not id >= 0"}
    augment: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]

    run = prepared(home, [LARGE, GPU], **read, augment=augment, cache="none")

    assert run.plans["train"].is_learned


def test_a_function_that_fails_further_on_is_found_before_the_start(home: Path) -> None:
    broken: JsonValue = [{"use": f"{FUNCTIONS}:broken", "options": {"at": 900}}]

    with pytest.raises(SpecError) as caught:
        prepared(home, [LARGE, GPU], path="narrow", transforms=broken)

    assert "row 900 is bad" in str(caught.value)
