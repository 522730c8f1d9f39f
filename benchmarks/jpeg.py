"""CPU time to decode a JPEG to 224x224: ours against torchvision's decode_jpeg and Pillow.

Images of 500x375, typical of ImageNet, and of 2000x1500: gradients, shapes and noise at quality 90,
generated once. One thread on each side, whose CPU time counts, because other programs hardly change
it. Needs torchvision: `hack/with-packages.sh requirements/torchvision.txt make bench NAME=jpeg`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import output_of
from tests.builders_data import encode_jpeg, make_photo

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 224
# Height, width and number of the pictures.
SETS = ((375, 500, 64), (1500, 2000, 16))
QUICK = ((375, 500, 8),)
ROUNDS = 10
SIDES: dict[str, tuple[str, dict[str, object]]] = {
    "ours": ("benchmarks.ours.jpegs", {}),
    "torchvision": ("benchmarks.plain.jpegs", {"reader": "torchvision"}),
    "Pillow": ("benchmarks.plain.jpegs", {"reader": "pillow"}),
}


def main() -> None:
    """Measure both sizes of pictures."""
    given = options(__doc__)
    figures: list[Figure] = []
    everything = Samples()
    for height, width, count in QUICK if given.quick else SETS:
        data = photos(height, width, count, given.cache)
        name = f"{width}x{height}"
        sides = {f"{name} {side}": partial(run, *program, data) for side, program in SIDES.items()}
        samples = in_turn(sides, given, is_timed=False)
        everything.by_side.update(samples.by_side)
        figures += compare(name, samples)
    publish("jpeg", figures, everything, given)


def compare(name: str, samples: Samples) -> list[Figure]:
    """Return the lines of one size of pictures: how many a core decodes in a second."""
    rates = {
        side: [1000 / value for value in samples.of(f"{name} {side}", "milliseconds")]
        for side in SIDES
    }
    unit, mine = "pictures/s", f"{name}: ours"
    target = Target("ratio", ">=", 1.0)
    return [
        Figure(f"{name}: Pillow", unit, rates["Pillow"]),
        Figure(f"{name}: torchvision", unit, rates["torchvision"]),
        Figure(mine, unit, rates["ours"], ("torchvision", rates["torchvision"]), target),
        Figure(mine, unit, rates["ours"], ("Pillow", rates["Pillow"])),
    ]


def photos(height: int, width: int, count: int, cache: Path) -> Path:
    """Return the folder with the pictures; makes it if need be."""

    def write(folder: Path) -> None:
        for number in range(count):
            encoded = encode_jpeg(make_photo(height, width, seed=number), quality=90)
            (folder / f"{number:03}.jpg").write_bytes(encoded)

    return rows.write_once(cache / f"photos-{count}x{width}x{height}", write)


def run(module: str, options: dict[str, object], data: Path, folder: Path) -> Sample:
    """Run a side and read the milliseconds of one picture."""
    sizes = {"data": data, "size": SIZE, "rounds": ROUNDS}
    found: Sample = json.loads(output_of(module, folder, options | sizes))
    return found


if __name__ == "__main__":
    main()
