"""`trainshed`: the group of commands and the one place that turns errors into exit codes."""

from __future__ import annotations

import sys

import click

from trainshed import __version__
from trainshed.cli.apply import apply
from trainshed.cli.data import data
from trainshed.cli.explain import explain
from trainshed.cli.init import init
from trainshed.cli.jobs import delete, list_jobs, logs, ps, status, stop
from trainshed.cli.predict import predict
from trainshed.cli.render import render
from trainshed.cli.report import report
from trainshed.cli.run import run
from trainshed.cli.storage import storage
from trainshed.cli.submit import submit
from trainshed.cli.validate import validate
from trainshed.data.sources.errors import DataError, UsersError
from trainshed.display.formatting import say_lines_plainly
from trainshed.failures import InfrastructureError
from trainshed.jobs.cluster_error import ClusterError
from trainshed.storage.run_folder import AttemptHeldError
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_TRY_AGAIN


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trainshed")
def cli() -> None:
    """Train a model from one TrainingRun file."""


HERE = (init, run, predict, validate, explain, render, report, data, storage)
IN_A_CLUSTER = (apply, submit, ps, status, logs, stop, list_jobs, delete)
for command in (*HERE, *IN_A_CLUSTER):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit."""
    try:
        cli(prog_name="trainshed", standalone_mode=False)
    except SpecError as error:
        for problem in error.problems:
            _say(problem)
        sys.exit(EXIT_INVALID)
    except DataError as error:
        if isinstance(error, UsersError) and error.trace:
            click.echo(say_lines_plainly(error.trace), err=True, nl=False)
        _say(error)
        sys.exit(EXIT_INVALID)
    except (AttemptHeldError, InfrastructureError, OSError) as error:
        _say(error)
        sys.exit(EXIT_TRY_AGAIN)
    except ClusterError as error:
        _say(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("Interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _say(error: object) -> None:
    """Tell an error, which may have a value of the data in it."""
    click.echo(say_lines_plainly(f"error: {error}"), err=True)
