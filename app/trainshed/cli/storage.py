"""`trainshed storage`: what lies where runs are kept."""

from __future__ import annotations

import click


@click.group()
def storage() -> None:
    """Look after the folder or bucket where runs are kept."""


@storage.command()
@click.argument("where", metavar="STORAGE")
@click.option("--delete", is_flag=True, help="Delete what is listed.")
def gc(where: str, delete: bool) -> None:
    """List what runs that were killed left below STORAGE, a path or the address of a bucket.

    Half-written checkpoints, those beyond checkpoint.keep, and rows of cache: disk that no attempt
    goes on with. Nothing of a run that is under way
    or that was written within the last hour is listed, and nothing is deleted without --delete.
    """
    from trainshed.attempt.gc import leftovers
    from trainshed.display.formatting import say_bytes, say_plainly
    from trainshed.storage.addresses import open_folder

    count, size = 0, 0
    try:
        for found in leftovers(open_folder(where)):
            click.echo(f"{say_plainly(str(found.folder))} ({say_bytes(found.bytes)}) {found.why}")
            if delete:
                found.delete()
            count, size = count + 1, size + found.bytes
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="STORAGE") from error
    done = "deleted" if delete else "may go; --delete deletes them"
    click.echo(f"{count} folders, {say_bytes(size)}: {done}" if count else "nothing is left over")
