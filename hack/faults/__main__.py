"""Puts one fault after another into a copy of the sources; says which tests see it."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from hack.faults.checkout import Checkout
from hack.faults.table import read_faults
from hack.faults.trial import Result, try_fault


def main() -> int:
    """Try the faults, tell of each as it is done, and end with a table."""
    parser = argparse.ArgumentParser(prog="python -m hack.faults", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ID", help="these faults")
    parser.add_argument("--pure", action="store_true", help="leave the slow tests out")
    parser.add_argument(
        "--checkout", type=Path, default=Path.cwd(), metavar="PATH", help="whose sources and tests"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="results; those of other faults in it are kept"
    )
    arguments = parser.parse_args()
    faults = {fault.id: fault for fault in read_faults()}
    wanted = arguments.only or list(faults)
    if unknown := [name for name in wanted if name not in faults]:
        parser.error(f"no fault {', '.join(unknown)}; there are: {', '.join(faults)}")

    results = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        checkout = Checkout.copy(arguments.checkout.resolve(), Path(folder))
        checkout.check_imports()
        for name in wanted:
            checkout.check_text(faults[name])
        for name in wanted:
            result = try_fault(checkout, faults[name], with_slow=not arguments.pure)
            print(show(result), flush=True)
            results.append(result)
            if arguments.json:
                keep(arguments.json, result)
    counted = {caught: sum(r.caught == caught for r in results) for caught in ("pure", "slow", "")}
    print(f"pure {counted['pure']}, slow {counted['slow']}, missed {counted['']}")
    return 0


def show(result: Result) -> str:
    """Return one line of the table."""
    notes = "".join(f"; {note}" for note in result.notes)
    caught = result.caught or "MISSED"
    return f"{result.fault:26} {caught:7} {result.seconds:6.0f} s  {result.test}{notes}"


def keep(file: Path, result: Result) -> None:
    """Add a result to the file, in place of an older one of the same fault."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[result.fault] = asdict(result)
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
