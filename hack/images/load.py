"""Gives images to a local cluster: only what its node does not have yet."""

import time
from collections.abc import Sequence

from hack.cluster.bare import BareCluster
from hack.cluster.kind import KindCluster
from hack.images.failure import ImageError
from hack.images.image import Image
from hack.images.layout import Layout


def load_images(
    cluster: BareCluster | KindCluster, images: Sequence[Image], layout: Layout
) -> None:
    """Give images to a cluster and say what went over. Raises ImageError for one not built."""
    if isinstance(cluster, KindCluster):
        for image in images:
            cluster.load_image(image.reference)
        return
    start = time.monotonic()
    missing = [image.name for image in images if image.reference not in layout.images()]
    if missing:
        raise ImageError(f"not built yet: make images NAME='{' '.join(missing)}'")
    known = cluster.blobs()
    references = [image.reference for image in images]
    with cluster.receive_images() as stream:
        num_bytes = layout.write_tar(references, stream, without=known)
    names = ", ".join(image.name for image in images)
    print(f"{names}: {num_bytes / 1e9:.2f} GB loaded in {time.monotonic() - start:.0f} s")
