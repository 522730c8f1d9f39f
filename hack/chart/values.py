"""The values of a chart with the comments above them: the one place where they are documented."""

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Value:
    """One value that a user may set.

    Args:
        path: its keys, joined by dots.
        default: as it stands in the file.
        comment: what stands right above it, in one line; empty when nothing does.
    """

    path: str
    default: str
    comment: str


def read_values(file: Path) -> list[Value]:
    """Return every value of a values.yaml, in its order.

    Mappings in block style hold further values; everything else is one.
    """
    lines = file.read_text().splitlines()
    root = yaml.compose(file.read_text(), Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_walk(root, "", lines))


def _walk(mapping: yaml.MappingNode, prefix: str, lines: list[str]) -> list[Value]:
    values: list[Value] = []
    for key, node in mapping.value:
        path = f"{prefix}{key.value}"
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            values += _walk(node, f"{path}.", lines)
        else:
            values.append(Value(path, _text(node, lines), _comment(lines, key.start_mark.line)))
    return values


def _text(node: yaml.Node, lines: list[str]) -> str:
    start, end = node.start_mark, node.end_mark
    if start.line == end.line:
        return lines[start.line][start.column : end.column]
    rows = [lines[start.line][start.column :], *lines[start.line + 1 : end.line]]
    # The end of a list in block style lies where the next key begins.
    shown = (row.strip() for row in rows)
    return " ".join(row for row in shown if row and not row.startswith("#"))


def _comment(lines: list[str], key_line: int) -> str:
    comment: list[str] = []
    row = key_line - 1
    while row >= 0 and lines[row].strip().startswith("#"):
        comment.insert(0, lines[row].strip().removeprefix("#").strip())
        row -= 1
    return " ".join(comment)
