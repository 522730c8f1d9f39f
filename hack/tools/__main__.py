"""Prints where tools are, a path a line: python -m hack.tools helm kubectl."""

import argparse
import sys

from hack.tools.finder import ToolMissingError, find
from hack.tools.pins import list_tools


def main() -> int:
    """Find the tools that the command line names, and say so in one line if one is missing."""
    parser = argparse.ArgumentParser(prog="python -m hack.tools", description=__doc__)
    parser.add_argument("tools", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every tool that is pinned")
    arguments = parser.parse_args()
    tools = list_tools() if arguments.all else arguments.tools
    if not tools:
        parser.error(f"name at least one of: {', '.join(sorted(list_tools()))}")
    try:
        for tool in tools:
            print(find(tool), flush=True)
    except KeyError as unknown:
        parser.error(str(unknown.args[0]))
    except ToolMissingError as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
