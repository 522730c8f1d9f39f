"""What is private to a library is imported by the packages that may, also for types alone."""

from pathlib import Path

import pytest
from grimp import build_graph

from hack.layers import PrivateContract

MODULES = {
    "__init__": "",
    "seams/__init__": "",
    "seams/bent": "from ray._private.log import PlainRayHandler\n",
    "public": "import ray\nfrom ray.train import Result\n",
    "quick": "from ray.data._internal.stats import (\n    DatasetStats,\n)\n",
    "types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ray import _private\n",
}


def test_only_the_rooms_that_may_import_private_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in MODULES.items():
        file = tmp_path / "layered" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    graph = build_graph("layered", include_external_packages=True, cache_dir=None)
    options = {"library": "ray", "allowed": ["layered.seams"]}
    contract = PrivateContract("private", {}, options)

    check = contract.check(graph, verbose=False)

    assert not check.kept
    assert check.metadata["found"] == [
        "layered.quick, line 1: from ray.data._internal.stats import (",
        "layered.types, line 3: from ray import _private",
    ]
