"""The node groups of a complete Ray cluster, as the controller passes them to a driver.

A driver sees the nodes that have come. After the loss of a head they come back one by one, and who
places workers by those that were the first may place them where the data's work belongs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.names import ENV_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class NodeGroup:
    """A group whose nodes say that they belong to it.

    Args:
        name: value of their label NODE_GROUP_LABEL.
        nodes: as many as there may be.
        cpus: of each node.
        gpus: of each node.
        memory: bytes of each node; None where nobody said.
    """

    name: str
    nodes: int
    cpus: float
    gpus: float
    memory: float | None = None


_GROUPS = TypeAdapter(tuple[NodeGroup, ...])


def encode_groups(groups: Sequence[NodeGroup]) -> str:
    """Return the text that decode_groups reads."""
    return _GROUPS.dump_json(tuple(groups)).decode()


def decode_groups(text: str) -> tuple[NodeGroup, ...]:
    """Return the groups of a text; none of an empty one.

    Raises:
        SpecError: for any other text.
    """
    try:
        return _GROUPS.validate_json(text) if text else ()
    except ValidationError as error:
        expected = "what a controller says of the cluster's groups"
        raise SpecError([Problem(ENV_GROUPS, show_value(text), expected)]) from error
