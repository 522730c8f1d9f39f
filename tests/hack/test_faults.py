import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hack.faults.checkout import Checkout
from hack.faults.table import Fault, read_faults
from hack.faults.trial import try_fault

ROOT = Path(__file__).parents[2]
FAULTS = {fault.id: fault for fault in read_faults()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_text_that_is_there_once(name: str) -> None:
    fault = FAULTS[name]
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert fault.new != fault.old


def test_no_two_faults_have_one_name() -> None:
    assert max(Counter(fault.id for fault in read_faults()).values()) == 1


def make_fault(old: str) -> Fault:
    return Fault("wrong-sum", "sum.py", old, "1 - 1", "a wrong sign", (), ())


def test_a_fault_is_there_for_a_while_only(tmp_path: Path) -> None:
    (tmp_path / "sum.py").write_text("print(1 + 1)\n")
    checkout = Checkout(Path("python"), tmp_path)

    with checkout.having(make_fault("1 + 1")):
        assert (tmp_path / "sum.py").read_text() == "print(1 - 1)\n"
    assert (tmp_path / "sum.py").read_text() == "print(1 + 1)\n"


def test_a_fault_whose_text_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "sum.py").write_text("print(2)\n")

    with pytest.raises(SystemExit, match=r"wrong-sum: .* sum.py 0 times; expected 1"):
        Checkout(Path("python"), tmp_path).check_text(make_fault("1 + 1"))


def test_tests_that_a_checkout_does_not_have_are_known(tmp_path: Path) -> None:
    (tmp_path / "test_sum.py").write_text("async def test_it(case):\n    pass\n")
    checkout = Checkout(Path("python"), tmp_path)

    targets = ("test_sum.py", "test_sum.py::test_it[a case]", "test_sum.py::test_no", "test_no.py")
    assert [checkout.has_target(target) for target in targets] == [True, True, False, False]


@pytest.mark.parametrize(("wanted", "caught"), [(2, "pure"), (3, "")])
def test_a_test_that_fails_without_the_fault_too_has_not_seen_it(
    wanted: int, caught: str, tmp_path: Path
) -> None:
    (tmp_path / "sum.py").write_text("found = 1 + 1\n")
    test = f"import sum\n\ndef test_it():\n    assert sum.found == {wanted}\n"
    (tmp_path / "test_sum.py").write_text(test)
    fault = replace(make_fault("1 + 1"), pure=("test_sum.py",))

    result = try_fault(Checkout(Path(sys.executable), tmp_path), fault, with_slow=False)

    assert result.caught == caught
