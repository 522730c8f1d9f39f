"""Kubernetes quantities: how much CPU and memory a spelling such as "500m" or "8Gi" means."""

from __future__ import annotations

import math
import re
from decimal import ROUND_UP, Decimal

from trainshed_api.errors import show_value

# More cores than any machine has, and more bytes than any: what is above is a slip of the pen.
MOST_CORES, MOST_BYTES = "1M", "1E"

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_FACTORS: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
# As Kubernetes has it: what is larger is cut to this, what is finer is rounded away from zero.
_LARGEST, _FINEST = Decimal(2**63 - 1), Decimal("1e-9")
_LONGEST = 64


def parse_quantity(text: str) -> Decimal:
    """Return the amount that Kubernetes reads, a finite one.

    Raises ValueError for a text that is no quantity, or has more than 64 characters.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(
            f"got {show_value(text)}; expected a Kubernetes quantity such as 2, 500m or 8Gi"
        )
    amount = Decimal(match["number"])
    if match["suffix"]:
        amount *= _FACTORS[match["suffix"]]
    elif match["exponent"]:
        amount = amount.scaleb(int(match["exponent"]))
    capped = max(-_LARGEST, min(_LARGEST, amount))
    return capped.quantize(_FINEST, rounding=ROUND_UP)


def parse_cores(text: str) -> float:
    """Return CPU cores: "500m" is 0.5."""
    return float(parse_quantity(text))


def parse_bytes(text: str) -> int:
    """Return bytes, rounded up as Kubernetes does: "1Ki" is 1024."""
    return math.ceil(parse_quantity(text))
