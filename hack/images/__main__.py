"""Builds the images, and gives them to a local cluster.

python -m hack.images build [NAME...] | load [NAME...] | list
"""

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack.cluster.__main__ import choose_cluster
from hack.cluster.failure import ClusterError
from hack.images.commands import Commands
from hack.images.engines import Engine, find_engine, home
from hack.images.failure import ImageError
from hack.images.image import Image, list_images, list_test_images
from hack.images.layout import Layout
from hack.images.load import load_images


def main() -> int:
    """Do what the command line says; a failure is one message."""
    parser = argparse.ArgumentParser(prog="python -m hack.images", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="build what has changed")
    build.add_argument("--again", action="store_true", help="also what has not changed")
    load = verbs.add_parser("load", help="give a local cluster what it does not have")
    load.add_argument("--cluster", default=os.environ.get("TRAINSHED_CLUSTER", "trainshed"))
    for verb in (build, load):
        verb.add_argument("names", nargs="*", metavar="NAME", help="default: all that are released")
    verbs.add_parser("list", help="list the images")
    arguments = parser.parse_args()
    layout = Layout(home() / "images")
    try:
        with _one_at_a_time(home() / "images.lock"):
            match arguments.verb:
                case "build":
                    images = _choose(arguments.names)
                    build_images(images, layout, is_forced=arguments.again)
                case "load":
                    cluster = choose_cluster(arguments.cluster, os.environ.get("TRAINSHED_DRIVER"))
                    load_images(cluster, _choose(arguments.names), layout)
                case _:
                    _print_list(layout)
    except (ImageError, ClusterError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def build_images(images: Sequence[Image], layout: Layout, *, is_forced: bool = False) -> None:
    """Build and store the images that changed, and say how large they are and what took long."""
    stored = layout.images()
    engine: Engine | None = None
    for image in images:
        inputs = image.fingerprint()
        known = stored.get(image.reference)
        if known and known.inputs == inputs and not is_forced:
            print(f"{image.name}: {_describe(layout, image.reference)}, nothing has changed")
            continue
        engine = engine or find_engine(Commands(home() / "logs", home() / "tmp"), layout)
        start = time.monotonic()
        engine.build(image)
        built = time.monotonic()
        engine.store(image)
        end = time.monotonic()
        if image.reference in layout.images():
            layout.set_inputs(image.reference, inputs)
        print(
            f"{image.name}: {_describe(layout, image.reference)},"
            f" built in {built - start:.0f} s, stored in {end - built:.0f} s",
            flush=True,
        )
    layout.prune()


def _describe(layout: Layout, reference: str) -> str:
    stored = layout.images().get(reference)
    if stored is None:
        return f"{reference} in docker's own store"
    num_layers = len(layout.blobs(stored)) - 2
    return f"{reference}, {layout.num_bytes(stored) / 1e9:.2f} GB in {num_layers} layers"


def _print_list(layout: Layout) -> None:
    for reference in sorted(layout.images()):
        print(_describe(layout, reference))


def _choose(names: Sequence[str]) -> list[Image]:
    images = {image.name: image for image in [*list_images(), *list_test_images()]}
    unknown = sorted(set(names) - set(images))
    if unknown:
        raise ImageError(f"no image is called {', '.join(unknown)}: there are {', '.join(images)}")
    return [images[name] for name in names] if names else list_images()


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
