"""Progress of reading all fragments, on a terminal."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trainshed.data.sampler.fragments import Fragment


@contextlib.contextmanager
def bar(
    doing: str, fragments: Sequence[Fragment], stream: TextIO
) -> Iterator[Callable[[Fragment], None]]:
    """Yield a callback for each fragment, or part of one, that was read.

    Args:
        doing: name of the work.
        fragments: all of them; empty if their number is unknown.
        stream: for output, if it is a terminal.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(file=stream)
    with Progress(*columns, console=console, transient=True, disable=not stream.isatty()) as shown:
        is_known = fragments and stream.isatty()
        all_bytes = sum(fragment.num_bytes for fragment in fragments) if is_known else None
        task = shown.add_task(doing, total=all_bytes)

        def told(fragment: Fragment) -> None:
            shown.advance(task, fragment.num_bytes)

        yield told
