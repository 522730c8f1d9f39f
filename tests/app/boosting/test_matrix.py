"""Rows become XGBoost's matrices: features by name, texts as categories, groups whole."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from trainshed.boosting.matrix import Matrix, Share, build
from trainshed.boosting.matrix_columns import FeatureColumn, Groups, MatrixColumns, features, merge
from trainshed.data.sources.column_arrays import Columns, cut_rows, num_rows
from trainshed.worker.loop import StopTraining
from trainshed.worker.step_sync import Control

LABEL = MatrixColumns("y")


def make_columns(**columns: object) -> Columns:
    """Return a table with a label."""
    arrays: Columns = {name: np.asarray(values) for name, values in columns.items()}
    arrays.setdefault("y", np.arange(num_rows(arrays), dtype=np.float32))
    return arrays


def make_share(columns: Columns, rows: int = 2, rank: int = 0, world_size: int = 1) -> Share:
    """Return a share of a table that comes in pieces of so many rows."""

    def tables() -> Iterator[Columns]:
        for start in range(0, num_rows(columns), rows):
            yield cut_rows(columns, start, start + rows)

    return Share("spec.data.datasets.train", tables, Control(), rank, world_size)


def make_matrix(
    columns: Columns, wanted: MatrixColumns = LABEL, like: Matrix | None = None, rows: int = 2
) -> Matrix:
    """Return the matrix of a table that comes in pieces."""
    return build(make_share(columns, rows), wanted, like, max_bin=16, threads=1)


def test_features_have_the_names_of_their_columns() -> None:
    columns = make_columns(b=[1.0, 2.0, 3.0], a=[[1, 2], [3, 4], [5, 6]], w=[1.0, 1.0, 2.0])

    found = make_matrix(columns, MatrixColumns("y", weight="w"))

    assert found.data.feature_names == ["b", "a.0", "a.1"]
    table = features(columns, found.categories, found.layout)
    assert table.tolist() == [[1, 1, 2], [2, 3, 4], [3, 5, 6]]
    assert found.data.get_weight().tolist() == [1.0, 1.0, 2.0]
    assert (found.rows, found.data.get_label().tolist()) == (3, [0, 1, 2])


def test_texts_are_categories_in_the_order_of_the_alphabet() -> None:
    colours = np.asarray(["red", None, "blue", "red"], dtype=object)

    found = make_matrix(make_columns(colour=colours))

    assert found.categories.by_column == {"colour": ("blue", "red")}
    assert found.data.feature_types == ["c"]
    table = features(make_columns(colour=colours), found.categories, found.layout)
    np.testing.assert_array_equal(table, [[1], [np.nan], [0], [1]])


def test_what_only_scores_has_the_categories_of_what_trains() -> None:
    train = make_matrix(make_columns(colour=["red", "blue", "red"]))
    columns = make_columns(colour=["green", "blue"])

    valid = make_matrix(columns, like=train)

    assert valid.categories == train.categories
    table = features(columns, valid.categories, valid.layout)
    np.testing.assert_array_equal(table, [[np.nan], [0]])


def test_texts_as_labels_are_classes() -> None:
    train = make_matrix(make_columns(x=[1.0, 2.0, 3.0], y=["no", "yes", "no"]))

    assert train.data.get_label().tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match=r"label maybe is no class of .* train: no, yes"):
        make_matrix(make_columns(x=[1.0], y=["maybe"]), like=train)


def share_of(*tables: Columns, world_size: int = 1) -> Share:
    """Return a share of these tables."""
    return Share("spec.data.datasets.train", lambda: iter(tables), Control(), 0, world_size)


def test_a_stop_while_xgboost_reads_ends_the_reading() -> None:
    table, passes = make_columns(a=[1.0, 2.0]), itertools.count()

    def tables() -> Iterator[Columns]:
        is_first = next(passes) == 0
        yield table
        if not is_first:  # XGBoost reads here
            raise StopTraining
        yield table

    share = Share("spec.data.datasets.train", tables, Control(), 0, 1)

    with pytest.raises(StopTraining):
        build(share, LABEL, None, max_bin=16, threads=1)


def test_tables_may_have_their_columns_in_any_order() -> None:
    first = make_columns(a=[1.0, 2.0], b=[3.0, 4.0], y=[0.0, 1.0])
    second = {name: first[name] for name in ("y", "b", "a")}

    found = build(share_of(first, second), LABEL, None, max_bin=16, threads=1)
    valid = build(share_of(second), LABEL, found, max_bin=16, threads=1)

    assert found.data.feature_names == valid.data.feature_names == ["a", "b"]
    for matrix in (found, valid):
        for table in (first, second):
            assert features(table, matrix.categories, matrix.layout).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("value", [True, "red"])
def test_a_column_that_begins_with_missing_values_is_what_comes_after_them(value: object) -> None:
    nothing = make_columns(c=np.asarray([None, None], dtype=object))
    something = make_columns(c=np.asarray([None, value], dtype=object))

    found = build(share_of(nothing, something), LABEL, None, max_bin=16, threads=1)

    assert found.data.feature_types == ["c" if value == "red" else "q"]
    table = features(something, found.categories, found.layout)
    np.testing.assert_array_equal(table, [[np.nan], [0 if value == "red" else 1]])


def test_ranks_agree_on_what_a_column_is_or_all_say_that_they_do_not() -> None:
    text, numbers = FeatureColumn("c", None, "texts"), FeatureColumn("c", None, "numbers")
    missing, array = FeatureColumn("c", None, "missing"), FeatureColumn("c", 3, "numbers")

    assert merge([[missing], [text], [missing]], "x") == [text]
    for other, said in ((text, "texts"), (array, "3 numbers")):
        with pytest.raises(ValueError, match=rf"x: column c holds numbers .*, {said} in others"):
            merge([[numbers], [other]], "x")
    with pytest.raises(ValueError, match="x: column d is in some tables only"):
        merge([[numbers], [numbers, FeatureColumn("d", None, "numbers")]], "x")


def test_codes_that_did_not_train_are_missing_values() -> None:
    wanted = MatrixColumns("y", categorical=("c",))
    train = make_matrix(make_columns(c=[0, 3, 1]), wanted)
    columns = make_columns(c=[3, 4, 0])

    valid = make_matrix(columns, wanted, like=train)

    table = features(columns, valid.categories, valid.layout)
    np.testing.assert_array_equal(table, [[3], [np.nan], [0]])


def test_a_feature_that_would_be_infinite_is_refused() -> None:
    said = (
        r"column x: got 1e\+300; expected .* as float32 holds\. XGBoost takes features as float32"
    )
    with pytest.raises(ValueError, match=said):
        make_matrix(make_columns(x=[1.0, 1e300]))


def test_fewer_groups_than_workers_are_refused() -> None:
    columns = make_columns(x=[1.0, 2.0, 3.0], g=[1, 1, 2])
    share = make_share(columns, world_size=3)

    with pytest.raises(ValueError, match=r"datasets\.train: 2 groups for 3 workers"):
        build(share, MatrixColumns("y", group="g"), None, max_bin=16, threads=1)


def test_a_label_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no features, only the label y"):
        make_matrix({"y": np.asarray([1.0, 2.0])})


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ValueError, match=r'datasets\.train: there is no column "z"; expected one of x, y'
    ):
        make_matrix(make_columns(x=[1.0]), MatrixColumns("z"))


def test_no_rows_are_refused_with_what_would_help() -> None:
    with pytest.raises(ValueError, match=r"1 of 1 workers have no row: use fewer workers"):
        make_matrix(make_columns(x=np.empty(0)))


def test_ranked_rows_of_a_group_stay_together_however_they_come() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), rng.integers(1, 9, size=40))
    columns = make_columns(
        x=rng.normal(size=len(group)), y=rng.integers(0, 3, size=len(group)), g=group
    )
    wanted = MatrixColumns("y", group="g")

    scores = []
    for rows in (3, 1000):
        matrix = make_matrix(columns, wanted, rows=rows).data
        params = {"objective": "rank:ndcg", "eval_metric": "ndcg@3", "nthread": 1, "max_bin": 16}
        scored: dict[str, dict[str, list[float]]] = {}
        xgboost.train(params, matrix, 5, evals=[(matrix, "t")], evals_result=scored, verbose_eval=0)
        scores.append(scored["t"]["ndcg@3"])
    assert scores[0] == scores[1]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    cuts=st.integers(1, 7),
    world_size=st.integers(1, 4),
)
def test_groups_are_dealt_out_whole_and_once(sizes: list[int], cuts: int, world_size: int) -> None:
    group = np.repeat(np.arange(len(sizes)) * 7 % 13, sizes)
    columns = make_columns(g=group, y=np.arange(len(group)))
    seen: list[int] = []

    for rank in range(world_size):
        share = make_share(columns, cuts)
        for grouped in Groups(rank, world_size).whole(share.tables(), "g"):
            for number in np.unique(grouped.numbers):
                assert number % world_size == rank
                assert (grouped.numbers == number).sum() == sizes[number]
            seen += grouped.rows["y"].tolist()

    assert sorted(seen) == list(range(len(group)))


def test_a_group_that_comes_again_is_refused() -> None:
    columns = make_columns(x=[1.0, 2.0, 3.0], g=[1, 2, 1])

    with pytest.raises(ValueError, match="rows of group 1 do not lie together"):
        make_matrix(columns, MatrixColumns("y", group="g"))
