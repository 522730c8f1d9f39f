"""What the chart has to refuse, and by which words."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.chart.helm import HelmError
from tests.chart.rendering import Renderer


@dataclass(frozen=True)
class Case:
    """Values, as YAML, and what the message has to say."""

    values: str
    want: tuple[str, ...]
    release: str = "trainshed"


def check_refused(renderer: Renderer, folder: Path, case: Case) -> None:
    """Render a case's values, which lie in `folder` for it; it has to end with what it wants."""
    values = folder / "values.yaml"
    values.write_text(case.values)

    with pytest.raises(HelmError) as refusal:
        renderer.render_text(values, release=case.release)

    for words in case.want:
        assert words in str(refusal.value)
