"""Runs one benchmark: `python -m benchmarks NAME [options]`."""

import importlib
import sys

if len(sys.argv) == 1:
    sys.exit("usage: python -m benchmarks NAME [options]")
sys.argv[0] = sys.argv.pop(1)
importlib.import_module(f"benchmarks.{sys.argv[0]}").main()
