"""Stops runs of many programs in many ways, and reports which did not resume as documented."""

import argparse
import fcntl
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.stops.catalogue import ROOT, ROWS, Program, make_programs
from hack.stops.draw import Stop, draw, find_possible
from hack.stops.trial import Result, UnstoppedError, make_reference, try_stop

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
            print(f"{program.name} is not drawn: {program.needs} is missing", file=sys.stderr)
    stops = _choose(programs, arguments)
    if not stops:
        print(f"--only: got {arguments.only}; expected a program, or one of:", file=sys.stderr)
        print(*programs, file=sys.stderr)
        return 2
    if arguments.list:
        print(*(stop.name for stop in stops), sep="\n")
        return 0
    with _alone(arguments.folder):
        data = write_data(arguments.folder / "data")
    print(*HEAD, sep="\n", flush=True)
    failed = 0
    for stop in stops:
        program = programs[stop.program]
        folder = arguments.folder / "runs" / stop.name.replace("/", "-")
        try:
            with _alone(arguments.folder):
                kept = _reference_folder(arguments.folder, program)
                reference = make_reference(program, data, kept)
            result = try_stop(stop, program, reference, data, folder)
        except UnstoppedError as error:
            result = Result(stop, 0.0, 0.0, [], [str(error)])
        failed += bool(result.faults)
        print(result.to_line(), flush=True)
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
    parser.add_argument("--list", action="store_true", help="say which, and stop nothing")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".trainshed" / "stops",
        help="keeps references, and the runs that failed",
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


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other shards out: what is in the folder is made once, for all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_data(folder: Path) -> Path:
    """Write what programs read, where it is not there; return the folder."""
    from tests.app.builders_rows import write_rows
    from trainshed.digits import write_digits
    from trainshed.storage.disk import Disk

    folder.mkdir(exist_ok=True)
    write_digits(Disk(folder))
    if not (folder / "rows").exists():  # files that change would fail the runs that read them
        write_rows(folder / "rows", ROWS, row_group_size=12)
    return folder


def _reference_folder(folder: Path, program: Program) -> Path:
    """Return where the reference of a program is kept; another one when the program changes."""
    files = [ROOT / "hack" / "stops" / name for name in ("programs.py", "frameworks.py")]
    source = b"".join(file.read_bytes() for file in files)
    text = json.dumps(program.spec, sort_keys=True).encode()
    return folder / "references" / f"{program.name}-{hashlib.sha256(source + text).hexdigest()[:8]}"


if __name__ == "__main__":
    sys.exit(main())
