"""The features of a training matrix as a manifest records them, so that other rows get the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.boosting.matrix_columns import Categories, FeatureColumn, Kind, Layout
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from trainshed.boosting.matrix_columns import MatrixColumns


class FeatureState(Record):
    """Columns and categories of the rows that train.

    `inputs` has the fields of FeatureColumn, `categories` the texts of each column of texts, and
    `most` the largest code of each column whose integers are categories.
    """

    inputs: tuple[tuple[str, int | None, Kind], ...]
    categorical: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    most: dict[str, float]

    @classmethod
    def of(cls, columns: MatrixColumns, categories: Categories, layout: Layout) -> FeatureState:
        """Return the state of a matrix."""
        return cls(
            inputs=tuple((each.name, each.width, each.kind) for each in layout.inputs),
            categorical=columns.categorical,
            categories=dict(categories.by_column),
            most=dict(categories.most),
        )

    def layout(self) -> Layout:
        """Return the layout of the features."""
        return Layout.of([FeatureColumn(*each) for each in self.inputs], self.categorical)

    def known_categories(self) -> Categories:
        """Return the categories."""
        return Categories(self.categories, self.most)
