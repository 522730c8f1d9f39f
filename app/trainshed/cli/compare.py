"""`trainshed compare RUN RUN`: what differs between runs, and their curves on one chart."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from trainshed.cli.run_location import storage_errors
from trainshed_api.errors import Problem, SpecError


@click.command()
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--to",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a page with their curves: FILE.html.",
)
def compare(runs: tuple[str, ...], output: str, page: Path | None) -> None:
    """Show the differences between runs.

    It compares result, file, data, code, versions and machine. RUN is a run's name, its TrainingRun
    file, or the path or address of its folder.
    """
    from rich.table import Table
    from rich.text import Text

    from trainshed.cli.printing import print_table
    from trainshed.display.formatting import say_plainly
    from trainshed.jobs.local_runs import read_local_run
    from trainshed.planning.run_folders import run_folder
    from trainshed.report.comparison import labels, list_differences, overlay_curves
    from trainshed.report.load import NoRunFolderError, read_run
    from trainshed.report.page import render_comparison

    if len(runs) < 2:  # noqa: PLR2004
        raise SpecError([Problem("RUN", runs[0], "two or more runs")])
    try:
        with storage_errors():
            found = [read_run(run_folder(each, "RUN")) for each in runs]
            states = [read_local_run(each.folder) for each in found]
    except NoRunFolderError as error:
        raise click.BadParameter(str(error), param_hint="RUN") from error
    names = labels(found)
    rows = list_differences(found, [each.status if each else "NotStarted" for each in states])
    if page:
        html = render_comparison(" and ".join(names), overlay_curves(found), rows, names)
        page.write_text(html, encoding="utf-8", errors="replace")
    if output == "json":
        click.echo(json.dumps({"runs": names, "differences": [asdict(each) for each in rows]}))
    elif rows:
        table = Table(box=None)
        for name in ("", "", *names):
            table.add_column(Text(say_plainly(name)), overflow="fold")
        for each in rows:
            table.add_row(each.section, *map(Text, map(say_plainly, (each.fact, *each.values))))
        print_table(table)
    else:
        click.echo("the runs do not differ")
