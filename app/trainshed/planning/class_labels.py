"""The labels of datasets: what their numbers mean, and whether they meet in a batch."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan

# Names that a message shows as examples.
FEW = 3


def label_notes(plans: Mapping[str, DatasetPlan]) -> Iterator[str]:
    """Yield which labels do not mean what those of the dataset that trains mean."""
    main = main_dataset(plans)
    named = {name: classes_of(plan) for name, plan in plans.items()}
    expected = named.get(main or "", ())
    mixed = {part.name for plan in plans.values() for part in plan.parts}
    for name, classes in named.items():
        if name in mixed:  # they are alike, or were refused
            continue
        if expected and classes and classes != expected:
            some = ", ".join(sorted(set(expected) ^ set(classes))[:FEW])
            source = "mix" if plans[name].parts else "path"
            yield (
                f"{plans[name].field}.read.{source}: its {len(classes)} folders are not the "
                f"{len(expected)} of {main} (only in one of them: {some}): a label is the number "
                "of a row's own folder, and does not mean the same in both"
            )


def few_labels_met(plan: DatasetPlan) -> Iterator[str]:
    """Yield that few labels meet in a batch, if rows are sorted by label and mixed too little."""
    mode, buffer, labels = plan.spec.shuffle.mode, plan.shuffle_buffer_rows, plan.num_sorted_labels
    if plan.source is None or mode == "global":
        return
    share = min(1.0, buffer / max(1, plan.source.about_rows))
    if mode == "blocks" and buffer:  # each block of a buffer has one label, drawn at random
        met = labels * (1 - (1 - 1 / max(1, labels)) ** (share * len(plan.source.fragments)))
    else:
        met = share * labels
    if 2 * met < labels:
        yield (
            f"{plan.field}.shuffle: with mode {mode} a batch has rows of about "
            f"{max(1, round(met))} of {labels} labels, because the files are sorted by label: use "
            "mode global, or mode blocks with a larger bufferSize"
        )


def check_labels(mix: DatasetPlan) -> None:
    """Refuse datasets of a mix in which the number of a label means different folders.

    Raises:
        SpecError: naming the first folder that differs.
    """
    known = [(part.name, classes) for part in mix.parts if (classes := classes_of(part))]
    for name, classes in known[1:]:
        first, expected = known[0]
        if classes == expected:
            continue
        pairs = enumerate(zip_longest(expected, classes))
        number, (one, other) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        field = f"{mix.field}.read.mix.{name}"
        got = f"label {number} for {_say_folder(other)}"
        alike = (
            f"the folders of {first}, where it is {_say_folder(one)}: a label is the number of a "
            "row's own folder; or read.columns with path in the place of label, and a transform "
            "that makes the label of it"
        )
        raise SpecError([Problem(field, got, alike)])


def _say_folder(name: str | None) -> str:
    return "no folder" if name is None else f"the folder {name}"


def classes_of(plan: DatasetPlan) -> Sequence[str]:
    """Return what the labels of a dataset mean, by number; of a mix, what those of a part do."""
    if plan.parts:
        return next(filter(None, map(classes_of, plan.parts)), ())
    is_read = not plan.spec.read.columns or "label" in plan.spec.read.columns
    return plan.source.scan.classes if plan.source and is_read else ()
