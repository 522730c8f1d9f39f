"""The signs of comparisons in a condition as Python has them: what rows are compared with."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

# Values of a column have one type; which one only the table says.
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
