"""Runs `main` of a module with the options of the command line and writes its result as JSON."""

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Run `python -m benchmarks.plain.program MODULE OPTIONS FILE`; OPTIONS is a JSON object."""
    module, options, file = sys.argv[1:]
    result = importlib.import_module(module).main(**json.loads(options))
    Path(file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
