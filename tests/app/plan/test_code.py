"""Code of the user's own on this machine: a folder to work in, packages that must be there."""

from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.builders import make_run
from trainshed.plan.code import enter
from trainshed_api.errors import SpecError

CLICK = version("click")

REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "a folder that is not there": (
        {"workingDir": "src"},
        'spec.code.workingDir: got "src", want a folder: {beside}/src is none',
    ),
    "an address": (
        {"workingDir": "s3://bucket/code.zip"},
        'spec.code.workingDir: got "s3://bucket/code.zip", want a local folder; an address is for '
        "a run in a cluster",
    ),
    "a package that is not installed": (
        {"pip": ["no-such-package-here"]},
        'spec.code.pip[0]: got "no-such-package-here", want it on this machine, where it is not '
        "installed: pip install 'no-such-package-here'",
    ),
    "another version": (
        {"pip": ["pydantic", "click==0.1"]},
        f'spec.code.pip[1]: got "click==0.1", want it on this machine, where version {CLICK} is '
        "installed: pip install 'click==0.1'",
    ),
    "no requirement": (
        {"pip": ["click == == 1"]},
        'spec.code.pip[0]: got "click == == 1", want a requirement such as einops==0.8',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_here_is_said(case: str, tmp_path: Path) -> None:
    code, want = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        enter(make_run(code=code).spec.code, tmp_path)

    assert str(caught.value) == want.format(beside=tmp_path)


def test_a_folder_beside_the_file_is_worked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)

    enter(make_run(code={"workingDir": "src", "pip": [f"click=={CLICK}"]}).spec.code, tmp_path)

    assert Path.cwd() == tmp_path / "src"


def test_packages_for_other_systems_need_not_be_here(tmp_path: Path) -> None:
    code: JsonValue = {"pip": ['no-such-package-here; sys_platform == "win32"']}

    enter(make_run(code=code).spec.code, tmp_path)


MISTAKES: dict[str, tuple[dict[str, JsonValue], str]] = {
    "an option of pip": (
        {"pip": ["-r requirements.txt"]},
        'spec.code.pip[0]: got "-r requirements.txt", want a requirement such as einops==0.8',
    ),
    "an address that Ray cannot fetch": (
        {"workingDir": "ftp://host/code.zip"},
        'spec.code.workingDir: got "ftp://host/code.zip", want the address of a .zip (https, s3, '
        "gs, azure, abfss or file), or a local folder",
    ),
    "an address of no archive": (
        {"workingDir": "s3://bucket/code"},
        'spec.code.workingDir: got "s3://bucket/code", want the address of a .zip (https, s3, gs, '
        "azure, abfss or file), or a local folder",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_found_by_the_model(case: str) -> None:
    code, want = MISTAKES[case]

    with pytest.raises(SpecError) as caught:
        make_run(code=code)

    assert str(caught.value) == want
