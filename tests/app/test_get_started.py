"""The function of docs/get-started.md trains, with the fields that the page sets."""

from pathlib import Path

import pytest
import yaml

from tests.app.alone import train_alone
from tests.bundle.repository import ROOT
from tests.bundle.test_pages import blocks_of
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed_api.names import SUCCEEDED

PAGE = ROOT / "docs" / "get-started.md"


def test_the_function_of_the_page_learns_the_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [program], [fields] = blocks_of(PAGE, "python"), blocks_of(PAGE, "yaml")
    (tmp_path / "mine.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    write_digits(Disk(tmp_path))
    manifest = yaml.safe_load((ROOT / "manifests" / "trainingrun.yaml").read_text())
    one_worker = {"epochs": 5, "workers": {"count": 1}}
    spec = {**manifest["spec"], **yaml.safe_load(fields)["spec"], **one_worker}

    finished = train_alone(tmp_path, spec).finished

    assert finished.outcome == SUCCEEDED, finished.message
    assert (finished.metrics["valid.accuracy"] or 0) > 0.8
