"""`trainshed storage`: what lies where runs are kept."""

from __future__ import annotations

import click


@click.group()
def storage() -> None:
    """Manage the folder or bucket that holds runs."""


@storage.command()
@click.argument("where", metavar="STORAGE")
@click.option("--delete", is_flag=True, help="Delete the listed files.")
def gc(where: str, delete: bool) -> None:
    """List files that killed runs left below STORAGE, a path or a bucket address.

    These are incomplete checkpoints, checkpoints beyond checkpoint.keep, and disk caches that no
    attempt can use. Files of active runs and of the last hour are never listed. Nothing is deleted
    without --delete.
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
    done = "deleted" if delete else "can be deleted. Add --delete to delete them"
    click.echo(f"{count} folders, {say_bytes(size)}: {done}" if count else "nothing to delete")
