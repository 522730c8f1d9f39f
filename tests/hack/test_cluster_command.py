"""`python -m hack.cluster` says what is wrong in one line."""

import pytest

from hack.cluster.__main__ import main


def test_a_cluster_that_is_not_up_says_how_to_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--name=never-made", "--driver=bare", "kubectl", "get", "pods"])
    assert code == 1
    assert capsys.readouterr().err == "cluster never-made is not up: make cluster\n"


def test_an_unknown_driver_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINSHED_DRIVER", "podman")
    assert main(["up"]) == 1
    assert capsys.readouterr().err == "driver 'podman' is none of kind and bare\n"


def test_an_argument_too_many_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["up", "again"])
    assert "not understood: again" in capsys.readouterr().err
