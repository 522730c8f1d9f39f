"""Runs one benchmark: `python -m benchmarks NAME [options]`."""

import importlib
import sys

importlib.import_module(f"benchmarks.{sys.argv.pop(1)}").main()
