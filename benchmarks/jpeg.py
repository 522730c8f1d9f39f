"""CPU time to decode a JPEG to 224x224: ours against torchvision's decode_jpeg and Pillow.

Images of 500x375, typical of ImageNet, and of 2000x1500: gradients, shapes and noise at quality 90,
generated once. One thread on each side, whose CPU time counts, because other programs hardly change
it. Needs torchvision: `hack/with-packages.sh requirements/torchvision.txt make bench NAME=jpeg`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Samples, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module
from tests.builders_data import encode_jpeg, make_photo

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 224
# Height, width and number of the images.
SETS = ((375, 500, 64), (1500, 2000, 16))
QUICK = ((375, 500, 8),)
ROUNDS = 10
SIDES: dict[str, tuple[str, dict[str, object]]] = {
    "ours": ("benchmarks.ours.jpegs", {}),
    "torchvision": ("benchmarks.plain.jpegs", {"decoder": "torchvision"}),
    "Pillow": ("benchmarks.plain.jpegs", {"decoder": "pillow"}),
}


def main() -> None:
    """Measure both sizes of images."""
    options = parse_options(__doc__)
    figures: list[Figure] = []
    all_samples = Samples()
    for height, width, count in QUICK if options.quick else SETS:
        data = make_photos(height, width, count, options.cache)
        name = f"{width}x{height}"
        sides = {f"{name} {side}": partial(run, *program, data) for side, program in SIDES.items()}
        samples = run_sides(sides, options, is_timed=False)
        all_samples.by_side.update(samples.by_side)
        figures += compare(name, samples)
    publish("jpeg", figures, all_samples, options)


def compare(name: str, samples: Samples) -> list[Figure]:
    """Return the figures of one size: images that one core decodes in a second."""
    ours, torchvision, pillow = (
        [1000 / value for value in samples.of(f"{name} {side}", "milliseconds")] for side in SIDES
    )
    unit, target = "pictures/s", Target("ratio", ">=", 1.0)
    return [
        Figure(f"{name}: Pillow", unit, pillow),
        Figure(f"{name}: torchvision", unit, torchvision),
        Figure(f"{name}: ours", unit, ours, ("torchvision", torchvision), target),
        Figure(f"{name}: ours", unit, ours, ("Pillow", pillow)),
    ]


def make_photos(height: int, width: int, count: int, cache: Path) -> Path:
    """Return the folder of the images; writes them if necessary."""

    def write(folder: Path) -> None:
        for number in range(count):
            encoded = encode_jpeg(make_photo(height, width, seed=number), quality=90)
            (folder / f"{number:03}.jpg").write_bytes(encoded)

    return rows.write_once(cache / f"photos-{count}x{width}x{height}", write)


def run(module: str, arguments: dict[str, object], data: Path, folder: Path) -> Sample:
    """Return the milliseconds of one image on one side."""
    sizes = {"data": data, "size": SIZE, "rounds": ROUNDS}
    sample: Sample = run_module(module, folder, arguments | sizes)
    return sample
