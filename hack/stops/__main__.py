"""Stops runs of many programs in many ways, and reports which did not resume as documented."""

import argparse
import sys
from pathlib import Path

from hack.stops.catalogue import ROOT, Program, make_programs
from hack.stops.draw import Stop, draw, find_possible
from hack.stops.trial import try_stop

HEAD = (
    "| program | phase | signal | stop s | all s | codes | verdict |",
    "|---|---|---|---|---|---|---|",
)


def main(words: list[str] | None = None) -> int:
    """Try the stops of a shard, and print a table with a line for each; 1 where one failed."""
    arguments = _read(words)
    programs = {}
    for program in make_programs():
        if program.is_installed:
            programs[program.name] = program
        else:
            print(
                f"{program.name} is not drawn: it needs {', '.join(program.needs)}", file=sys.stderr
            )
    stops = _choose(programs, arguments)
    if not stops:
        print(f"--only: got {arguments.only}; expected a program, or one of:", file=sys.stderr)
        print(*programs, file=sys.stderr)
        return 2
    if arguments.list:
        print(*(stop.name for stop in stops), sep="\n")
        return 0
    print(*HEAD, sep="\n", flush=True)
    failed = 0
    for stop in stops:
        result = try_stop(stop, programs[stop.program], arguments.folder)
        failed += bool(result.faults)
        print(result.line, flush=True)
    print(f"\n{len(stops)} stops, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


def _read(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.stops", description=__doc__)
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts of them")
    parser.add_argument("--count", type=int, default=240, help="of all shards together (240)")
    parser.add_argument("--seed", type=int, default=0, help="other stops for another one (0)")
    parser.add_argument(
        "--only",
        default="",
        metavar="PROGRAM[/PHASE[/SIGNAL]]",
        help="these of all that are possible, not of those that are drawn",
    )
    parser.add_argument("--list", action="store_true", help="print which, and stop nothing")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".trainshed" / "stops",
        help="of unstopped runs, and of runs that failed",
    )
    return parser.parse_args(words)


def _choose(programs: dict[str, Program], arguments: argparse.Namespace) -> list[Stop]:
    possible = find_possible({name: p.phases for name, p in programs.items()}, arguments.seed)
    if arguments.only:
        possible = [s for s in possible if f"{s.name}/".startswith(f"{arguments.only}/")]
    drawn = draw(possible, arguments.seed, arguments.count)
    # Each part of the draw has every program, phase and signal about as often.
    shard, of = map(int, arguments.shard.split("/"))
    return drawn[len(drawn) * (shard - 1) // of : len(drawn) * shard // of]


if __name__ == "__main__":
    sys.exit(main())
