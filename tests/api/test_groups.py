"""What a driver is told of the groups of its cluster comes across as it was."""

import pytest

from trainshed_api.errors import SpecError
from trainshed_api.groups import NodeGroup, decode_groups, encode_groups

GROUPS = (NodeGroup("gpu", 3, 7.5, 1.0, 64e9), NodeGroup("cpu", 0, 4.0, 0.0))


def test_groups_come_across() -> None:
    assert decode_groups(encode_groups(GROUPS)) == GROUPS


def test_nobody_has_to_say_them() -> None:
    assert decode_groups("") == ()


def test_what_is_none_is_refused_by_name() -> None:
    with pytest.raises(SpecError) as caught:
        decode_groups('[{"name": "gpu"}]')

    assert str(caught.value).startswith("TRAINSHED_GROUPS: got ")
