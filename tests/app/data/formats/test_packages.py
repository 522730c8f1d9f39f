"""A format whose package is not installed is refused with the way to install it."""

import sys
from pathlib import Path

import pytest

from tests.app.data.builders_formats import open_files
from tests.bundle.repository import pyproject
from trainshed_api.errors import SpecError

PACKAGES = {
    "audio": ("soundfile", "soundfile"),
    "delta": ("deltalake", "deltalake"),
    "iceberg": ("pyiceberg", "pyiceberg"),
    "lance": ("lance", "pylance"),
    "video": ("av", "av"),
}


@pytest.mark.parametrize("form", PACKAGES)
def test_a_missing_package_is_named(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, package = PACKAGES[form]
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(
        SpecError,
        match=rf'^spec\.data\.datasets\.train\.read\.format: got "{form}"; expected it with the '
        rf"package {package} installed: pip install 'trainshed\[{form}\]'",
    ):
        open_files(tmp_path, form)


def test_every_package_has_an_extra_of_the_project() -> None:
    extras = pyproject()["optional-dependencies"]
    assert isinstance(extras, dict)
    assert {form: [extras[form][0].partition(">")[0]] for form in PACKAGES} == {
        form: [package] for form, (_, package) in PACKAGES.items()
    }
