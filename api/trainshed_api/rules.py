"""The model's cross-field rules once more, in CEL: the API server refuses what the model refuses.

Each stands at an object of the model (a path as in docs/trainingrun.md) and names the field at
fault below it. What only the model can say, because CEL sees no free-form values, no labels and no
Python, is not here: the controller says it in the condition Accepted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api.code import REMOTE_ARCHIVE
from trainshed_api.data import LOCAL_BUFFER
from trainshed_api.fitting import DEDICATED_REMEDY
from trainshed_api.frameworks import RULES as FRAMEWORKS
from trainshed_api.names import BUCKET_SCHEMES, DATASETS
from trainshed_api.profile import PROFILED_STEPS
from trainshed_api.quantity import MOST_BYTES, MOST_CORES, parse_quantity
from trainshed_api.schema import BYTES_EXAMPLE, CORES_EXAMPLE, expected_quantity
from trainshed_api.shape import training_run_shape
from trainshed_api.tracking import SECRET_REMEDY, SECRET_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed_api.shape import Shape

SPEC = "spec"
DATASET = f"{DATASETS}.NAME"


@dataclass(frozen=True)
class Rule:
    """A CEL expression that holds for every right object.

    path: the object it stands at. field: the field below it that is at fault, empty for itself.
    """

    path: str
    cel: str
    message: str
    field: str = ""


def _quantity(name: str, most: str, example: str) -> Rule:
    value, number = f"self.{name}", f"quantity(string(self.{name}))"
    # A bare number is an integer here: a CRD takes integers and texts where a quantity stands.
    cel = (
        f"!has({value}) || (type({value}) == int "
        f"? int({value}) > 0 && int({value}) <= {int(parse_quantity(most))} "
        f": isQuantity(string({value})) && {number}.isGreaterThan(quantity('0'))"
        f" && !{number}.isGreaterThan(quantity('{most}')))"
    )
    return Rule("spec.workers.resources", cel, f"expected {expected_quantity(most, example)}", name)


def _in_bucket(place: str) -> str:
    # Each is cheaper than a pattern: rules of a map's values have a budget.
    return " || ".join(f"{place}.startsWith('{scheme}://')" for scheme in BUCKET_SCHEMES)


def _without_batches() -> list[str]:
    return [name for name, rules in FRAMEWORKS.items() if not rules.has_batches]


def _is_one_of(frameworks: list[str]) -> str:
    return " || ".join(f"self.framework == '{name}'" for name in frameworks)


RULES: tuple[Rule, ...] = (
    Rule(
        "",
        "self.metadata.name.matches(r'^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) "
        "<= 40",
        "metadata.name: expected at most 40 of a-z, 0-9 and -, a letter first and no - last",
    ),
    Rule(
        SPEC,
        "has(self.train) != has(self.entrypoint)",
        "expected exactly one: train (a function) or entrypoint (a command)",
    ),
    Rule(
        SPEC,
        f"!has(self.train) || {_is_one_of(_without_batches())} || "
        "self.workers.count <= (has(self.batchSize) ? self.batchSize : 64)",
        "expected at least workers.count: each worker needs a row of every batch",
        "batchSize",
    ),
    Rule(
        SPEC,
        "self.env.all(name, name.matches(r'^[A-Za-z_][A-Za-z0-9_]*$') && "
        "!name.startsWith('TRAINSHED_'))",
        "expected names of letters, digits and _ that start with no digit; those that start with "
        "TRAINSHED_ are set by Trainshed itself",
        "env",
    ),
    Rule(
        SPEC,
        f"!has(self.tracking) || !self.env.exists(name, name in {list(SECRET_VARIABLES)})",
        f"expected {SECRET_REMEDY}",
        "env",
    ),
    Rule(
        "spec.code",
        f"!has(self.workingDir) || self.workingDir.matches(r'{REMOTE_ARCHIVE}')",
        "expected the address of a .zip that the cluster can read; a local folder is for the "
        "command line only",
        "workingDir",
    ),
    Rule(
        "spec.code",
        "self.pip.all(text, !text.matches(r'^[-.\\s]|[\\r\\n]'))",
        "expected requirements such as einops==0.8",
        "pip",
    ),
    Rule(
        "spec.cluster",
        "has(self.shared) != has(self.dedicated)",
        "expected exactly one: shared (a RayCluster's name) or dedicated (a class)",
    ),
    *(
        Rule(
            SPEC,
            f"{unset} || (has(self.cluster) && has(self.cluster.dedicated))",
            f"expected {DEDICATED_REMEDY}",
            field,
        )
        for field, unset in (
            ("image", "!has(self.image)"),
            ("envFrom", "size(self.envFrom) == 0"),
        )
    ),
    Rule(
        "spec.envFrom[]",
        "has(self.secretRef) != has(self.configMapRef)",
        "expected exactly one: secretRef or configMapRef",
    ),
    Rule(
        "spec.failurePolicy.rules[]",
        "size(self.exitCodes) > 0 || self.logPattern != ''",
        "expected exitCodes, logPattern or both: a rule for every failure is the two budgets",
    ),
    Rule("spec.profile", "self.steps[0] <= self.steps[1]", f"expected {PROFILED_STEPS}", "steps"),
    _quantity("cpu", MOST_CORES, CORES_EXAMPLE),
    _quantity("memory", MOST_BYTES, BYTES_EXAMPLE),
    Rule(
        "spec.data",
        "self.datasets.all(name, name.matches(r'^[A-Za-z][A-Za-z0-9_-]*$'))",
        "a dataset's name is a letter, then letters, digits, - or _",
        "datasets",
    ),
    Rule(
        DATASET,
        "self.cache != 'workers' || !(self.shuffle.mode in ['files', 'blocks', 'global'])",
        "expected objects, disk, none or auto with this shuffle mode: the rows of a worker change "
        "each epoch",
        "cache",
    ),
    Rule(
        f"{DATASET}.shuffle",
        "self.mode != 'local' || self.bufferSize > 1",
        "expected at least 2 with mode local, or mode none",
        "bufferSize",
    ),
    Rule(
        "spec.data",
        "self.datasets.all(name, !has(self.datasets[name].read.mix) || "
        "self.datasets[name].read.mix.all(part, part in self.datasets && "
        "!has(self.datasets[part].read.mix) && self.datasets[part].cache != 'workers' && "
        "!has(self.datasets[part].rowsPerEpoch) && "
        "self.datasets[part].shuffle.mode in ['auto', 'none', 'files', 'blocks'] && "
        f"self.datasets[part].shuffle.bufferSize in [0, {LOCAL_BUFFER}]))",
        "read.mix: expected existing datasets that are no mixes, with cache objects, disk, none or "
        "auto, shuffle mode none, files or blocks, and neither bufferSize nor rowsPerEpoch",
        "datasets",
    ),
    Rule(
        DATASET,
        "!has(self.read.mix) || (size(self.transforms) == 0 && size(self.augment) == 0 && "
        "self.task.cpus == 1 && !has(self.task.memory) && "
        "self.cache == 'auto' && self.shuffle.mode in ['auto', 'none', 'local'])",
        "expected transforms, augment, task, cache and order of files and blocks of the datasets "
        "that are mixed, none of the mix",
        "read",
    ),
    Rule(
        DATASET,
        "!has(self.rowsPerEpoch) || (self.cache != 'workers' && self.shuffle.mode != 'global')",
        "expected cache objects, disk, none or auto and another shuffle mode than global: an epoch "
        "continues where the last one stopped",
        "rowsPerEpoch",
    ),
    Rule(
        f"{DATASET}.read",
        "[has(self.format), has(self.use), has(self.reader), has(self.mix)]"
        ".filter(given, given).size() == 1",
        "expected exactly one: format (with path), use, reader or mix",
    ),
    Rule(
        f"{DATASET}.read",
        "!has(self.format) || has(self.path)",
        "missing; expected the file or folder to read",
        "path",
    ),
    Rule(
        f"{DATASET}.read",
        f"!self.anonymous || (has(self.path) && ({_in_bucket('self.path')}))",
        "expected no value without a path in a bucket",
        "anonymous",
    ),
    *(
        Rule(
            f"{DATASET}.read",
            f"{left_out} || (has(self.path) && self.path.startsWith('s3://'))",
            "expected no value without a path at s3://",
            name,
        )
        for name, left_out in (
            ("requesterPays", "!self.requesterPays"),
            ("endpoint", "!has(self.endpoint)"),
            ("region", "!has(self.region)"),
        )
    ),
    Rule(
        f"{DATASET}.transforms[]",
        "self.kind in ['batches', 'filter'] || !has(self.batchSize)",
        "expected no value without kind batches or filter",
        "batchSize",
    ),
    Rule(
        f"{DATASET}.transforms[]",
        "self.kind != 'rows' || self.batchFormat == 'numpy'",
        "expected no value with kind rows, which are dicts",
        "batchFormat",
    ),
    Rule(
        f"{DATASET}.transforms[]",
        "(self.kind == 'groups') == (size(self.by) > 0)",
        "expected the columns that make a group with kind groups, and none with another",
        "by",
    ),
    Rule(
        f"{DATASET}.transforms[]",
        "self.kind == 'groups' || size(self.orderBy) == 0",
        "expected no value without kind groups",
        "orderBy",
    ),
    Rule(
        DATASET,
        "self.cache != 'none' || !self.transforms.exists(each, each.kind == 'groups')",
        "expected objects, disk, workers or auto with transforms of kind groups, which are made "
        "once",
        "cache",
    ),
    Rule(
        f"{DATASET}.feed",
        "!has(self.collate) || !self.dtypes.exists(name, self.dtypes[name] == 'bfloat16')",
        "expected no bfloat16 with feed.collate, whose function gets NumPy arrays",
        "dtypes",
    ),
    Rule(
        "spec.data",
        "self.datasets.all(name, self.datasets[name].task.cpus <= self.cpus)",
        "task.cpus: expected at most the CPUs of data.cpus, which all tasks share",
        "datasets",
    ),
)


def iterate_rules() -> Iterator[Rule]:
    """Yield every rule of the CRD: those above, those of `only_with`, those of mutability."""
    yield from RULES
    shape = training_run_shape()
    yield from _frameworks(shape.fields["spec"])
    yield from _only_with("spec", shape.fields["spec"])
    yield from _never("spec", shape.fields["spec"])
    yield from _suspended(shape.fields["spec"])


def _frameworks(spec: Shape) -> Iterator[Rule]:
    """Yield what each framework refuses, at the spec: only there its name is known."""
    dataset = spec.fields["data"].fields["datasets"].values
    assert dataset
    for framework, rules in FRAMEWORKS.items():
        other = f"self.framework != '{framework}'"
        for path, why in rules.refused.items():
            message = f"expected no value with framework {framework}: {why}"
            yield Rule(SPEC, f"{other} || {_is_default('self', spec, path)}", message, path)
        if rules.most_gpus is not None:
            few = f"self.workers.resources.gpu <= {rules.most_gpus}"
            there = "has(self.workers) && has(self.workers.resources)"
            cel = f"{other} || !({there} && has(self.workers.resources.gpu)) || {few}"
            message = (
                f"expected resources.gpu of at most {rules.most_gpus} with framework {framework}"
            )
            yield Rule(SPEC, cel, message, "workers")
        if rules.refused_of_datasets:
            refused = list(rules.refused_of_datasets)
            kept = " && ".join(_is_default("self.data.datasets[name]", dataset, p) for p in refused)
            cel = f"{other} || !has(self.data) || self.data.datasets.all(name, {kept})"
            fields = ", ".join(refused)
            message = f"expected {fields} of each dataset left out with framework {framework}"
            yield Rule(SPEC, cel, message, "data")


def _is_default(root: str, shape: Shape, path: str) -> str:
    """Return that a field is not there, or is what the API server would fill in."""
    tests, place = [], root
    for step in path.split("."):
        shape, place = shape.fields[step], f"{place}.{step}"
        if not shape.filled:
            tests.append(f"!has({place})")
    if shape.default is None or shape.type in ("array", "object"):
        has_size = shape.type in ("array", "object") and not shape.fields
        same = f"size({place}) == 0" if has_size else ""
    elif shape.type == "string":
        known = [f"'{value}'" for value in (shape.default, shape.was) if value]
        same = f"{place} == {known[0]}" if len(known) == 1 else f"{place} in [{', '.join(known)}]"
    else:
        same = f"{place} == {json.dumps(shape.default)}"
    return f"({' || '.join([*tests, same] if same else tests)})"


def _only_with(path: str, shape: Shape) -> Iterator[Rule]:
    for name, field in shape.fields.items():
        place = f"{path}.{name}"
        # Free-form values have no size in CEL, and an empty one is right: the model tells.
        if field.only_with and not (field.is_free_form and field.only_with == "use"):
            empty = f" || size(self.{name}) == 0" if field.items and path != SPEC else ""
            yield Rule(
                path,
                f"!has(self.{name}){empty} || has(self.{field.only_with})",
                f"expected no value without {field.only_with}",
                name,
            )
        yield from _below(place, field, _only_with)


def _never(path: str, shape: Shape) -> Iterator[Rule]:
    """Yield the rules that make a field immutable, at the object that has the field."""
    for name, field in shape.fields.items():
        if field.mutable == "never":
            # An object says inside when each of its fields may change; here, whether it is there.
            is_leaf = not field.fields and not (field.values and field.values.fields)
            same = _unchanged(shape, [name]) if is_leaf else _still_there(name, field)
            if same:
                yield Rule(path, same, "cannot be changed: it makes another run", name)
        if field.items is None:  # CEL cannot tell which item of a list was which
            yield from _below(f"{path}.{name}", field, _never)


def _still_there(name: str, field: Shape) -> str:
    """Return the rule that an object is neither added nor taken away; nor are keys of a map."""
    if field.fields:
        return "" if field.filled else f"has(self.{name}) == has(oldSelf.{name})"
    keys = f"self.{name}.all(key, key in oldSelf.{name})"
    return f"size(self.{name}) == size(oldSelf.{name}) && {keys}"


def _suspended(spec: Shape) -> Iterator[Rule]:
    """Yield what forbids a change while the run may be running, at the spec: one for each field."""
    by_field: dict[str, list[str]] = {}
    for path in _leaves(spec, ""):
        by_field.setdefault(path.partition(".")[0], []).append(path)
    for name, paths in by_field.items():
        kept = " && ".join(f"({_unchanged_below(spec, path)})" for path in paths)
        whole = "" if paths == [name] else f"({_unchanged(spec, [name])}) || "
        message = f"{', '.join(paths)}: can be changed only while spec.suspend is true"
        yield Rule(SPEC, f"{whole}oldSelf.suspend || ({kept})", message, name)


def _unchanged_below(spec: Shape, path: str) -> str:
    """Return that a value is the same; below a map with free keys, that of each key in both."""
    above, _, below = path.partition(".NAME.")
    steps = above.split(".")
    if not below:
        return _unchanged(spec, steps)
    there = " && ".join(_tests("self", spec, steps) + _tests("oldSelf", spec, steps))
    same = (
        f"self.{above}.all(key, !(key in oldSelf.{above}) || "
        f"self.{above}[key].{below} == oldSelf.{above}[key].{below})"
    )
    return f"!({there}) || {same}" if there else same


def _unchanged(shape: Shape, steps: list[str]) -> str:
    """Return that the value at the end of the path is there or not as before, and the same.

    With each write of a status the API server evaluates it, and copies a table of all fields for
    each step: has() is asked only where the answer may be no.
    """
    place = ".".join(steps)
    new, old = (" && ".join(_tests(root, shape, steps)) for root in ("self", "oldSelf"))
    same = f"self.{place} == oldSelf.{place}"
    return f"{new} ? {old} && {same} : !({old})" if new else same


def _tests(root: str, shape: Shape, steps: list[str]) -> list[str]:
    """Return the tests of those steps of the path that need not be there."""
    tests = []
    for end, step in enumerate(steps, 1):
        shape = shape.fields[step]
        if not shape.filled:
            tests.append(f"has({root}.{'.'.join(steps[:end])})")
    return tests


def _leaves(shape: Shape, path: str) -> Iterator[str]:
    """Yield the path of what may change while suspended."""
    for name, field in shape.fields.items():
        place = f"{path}.{name}" if path else name
        if field.fields:
            yield from _leaves(field, place)
        elif field.values and field.values.fields:
            yield from _leaves(field.values, f"{place}.NAME")
        elif field.mutable == "suspended":
            yield place


def _below(place: str, field: Shape, walk: object) -> Iterator[Rule]:
    assert callable(walk)
    yield from walk(place, field)
    if field.items:
        yield from walk(f"{place}[]", field.items)
    if field.values:
        yield from walk(f"{place}.NAME", field.values)
