"""A copy of a checkout's sources, in which a fault may be put; the checkout stays as it is."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.faults.table import Fault

PATHS = ("api", "app", "controller", ".")
# Prints where the packages are imported from, in a separate process.
PROBE = """
import trainshed, trainshed_api, trainshed_controller
for package in (trainshed, trainshed_api, trainshed_controller):
    print(package.__file__)
"""


@dataclass(frozen=True)
class Checkout:
    """A copy.

    Args:
        python: the interpreter that has what the tests need.
        root: of the copy.
    """

    python: Path
    root: Path

    @staticmethod
    def copy(source: Path, folder: Path) -> "Checkout":
        """Return a copy, below a folder, of what git knows or would take of a checkout."""
        root = folder / "checkout"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=source, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (source / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, root / name)
        if (source.parent / "shared").exists():  # where tests look for KubeRay's CRDs
            (folder / "shared").symlink_to(source.parent / "shared")
        # Some tests ask git what is tracked.
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        own = source / ".venv" / "bin" / "python"
        return Checkout(own if own.exists() else Path(sys.executable), root)

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes processes import the copy, and no compiled file of another fault."""
        path = os.pathsep.join(str(self.root / folder) for folder in PATHS)
        return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def check_imports(self) -> None:
        """Raise if the packages would be imported from another folder."""
        said = subprocess.run(
            [self.python, "-c", PROBE],
            cwd=self.root, env=self.environment, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for place in said.split():
            if not Path(place).is_relative_to(self.root):
                raise SystemExit(f"{place} would be imported; expected it below {self.root}")

    def check_text(self, fault: Fault) -> None:
        """Refuse a fault whose old text is not there exactly once."""
        count = (self.root / fault.file).read_text(encoding="utf-8").count(fault.old)
        if count != 1:
            raise SystemExit(
                f"{fault.id}: its old text is in {fault.file} {count} times; expected 1"
            )

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the copy for a while."""
        file = self.root / fault.file
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(text, encoding="utf-8")

    def has_target(self, target: str) -> bool:
        """Say whether there is such a test, file or folder of tests."""
        name, _, test = target.partition("::")
        place = self.root / name
        if not test:
            return place.exists()
        return place.exists() and f"def {test.partition('[')[0]}(" in place.read_text("utf-8")
