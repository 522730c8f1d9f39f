"""`trainshed`: the group of commands and the one place that turns errors into exit codes.

A command's module imports Ray Data's readers or pydantic models, so it is imported when it runs.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import click

from trainshed import __version__
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable

# Module below trainshed.cli, command, and the first sentence of the command's help.
COMMANDS = (
    ("init", "init", "Write a TrainingRun file into FOLDER that trains on your data."),
    ("run", "run", "Train FILE on this machine, resuming from the last checkpoint."),
    ("predict", "predict", "Predict the rows of SOURCE with the model of RUN."),
    ("export", "export", "Write the model of RUN as a file that programs without Trainshed read."),
    ("validate", "validate", "Check FILE, its data, its code, its storage and this machine."),
    ("explain", "explain", "Explain what a run of FILE reads, caches and requests from Ray."),
    ("render", "render", "Print the RayJob that the controller would create for FILE."),
    ("why", "why", "Say why a run failed, waits or is slow, and which command to type next."),
    ("report", "report", "Write report.html into FOLDER, the path or bucket address of a run."),
    ("compare", "compare", "Show the differences between runs."),
    ("data", "data", "Inspect rows and write them as Parquet."),
    ("storage", "storage", "Manage the folder or bucket that holds runs."),
    ("apply", "apply", "Check FILE, upload its code.workingDir, apply it, and follow the run."),
    ("submit", "submit", "Submit FILE as a job to a Ray cluster, or follow its job."),
    ("jobs", "ps", "List the runs of this machine and their state, or one of them."),
    ("jobs", "status", "Show the status of the job ID."),
    ("jobs", "logs", "Print the log of a run or a job."),
    ("jobs", "stop", "Stop a run on this machine or the job ID after a checkpoint."),
    ("jobs", "list", "List the jobs of the cluster, the oldest first."),
    ("jobs", "delete", "Delete the finished job ID from the cluster; its files on storage stay."),
)


class Unloaded(click.Command):
    """A command whose module is not imported yet; help and shell completion list it.

    Args:
        module: below trainshed.cli.
        name: of the command.
        summary: first sentence of its help.
    """

    def __init__(self, module: str, name: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self._module = f"trainshed.cli.{module}"

    def load(self) -> click.Command:
        """Return the command itself."""
        values = vars(importlib.import_module(self._module)).values()
        return next(v for v in values if isinstance(v, click.Command) and v.name == self.name)


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name, and the rest of them."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Unloaded):
            command = command.load()
        if ctx.obj:
            ctx.obj()
        return name, command, rest


@click.group(
    cls=LazyGroup,
    commands=[Unloaded(*each) for each in COMMANDS],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="trainshed")
def cli() -> None:
    """Train a model from one TrainingRun file."""


def main(loaded: Callable[[], object] | None = None) -> None:
    """Run the command line and exit; `loaded` is called once the command is imported."""
    try:
        cli(prog_name="trainshed", standalone_mode=False, obj=loaded)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("Interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        code = _say_error(error)
        if code is None:
            raise
        sys.exit(code)


def _say_error(error: Exception) -> int | None:
    """Print an error that users understand; return its exit code, None for a fault of ours."""
    from trainshed.data.sources.errors import DataError, UsersError
    from trainshed.failures import InfrastructureError
    from trainshed.jobs.cluster_error import ClusterError
    from trainshed.storage.run_folder import AttemptHeldError

    match error:
        case SpecError():
            for problem in error.problems:
                _say(problem)
            return EXIT_INVALID
        case DataError():
            if isinstance(error, UsersError) and error.trace:
                _print(error.trace)
            _say(error)
            return EXIT_INVALID
        case AttemptHeldError() | InfrastructureError() | OSError():
            _say(error)
            return EXIT_TRY_AGAIN
        case ClusterError():
            _say(error)
            return error.exit_code
    return None


def _say(error: object) -> None:
    """Tell an error, which may have a value of the data in it."""
    _print(f"error: {error}\n")


def _print(text: str) -> None:
    from trainshed.display.formatting import say_lines_plainly

    click.echo(say_lines_plainly(text), err=True, nl=False)
