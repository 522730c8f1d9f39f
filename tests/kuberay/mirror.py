"""A copy of all objects of one kind, kept by list and watch."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from aiohttp import ClientError

from tests.kuberay.api import ApiError, Kind, KubeApi
from tests.kuberay.resources import Manifest

Key = tuple[str, str]

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.2


def key_of(manifest: Manifest) -> Key:
    """Return (namespace, name)."""
    return _metadata(manifest, "namespace"), _metadata(manifest, "name")


class Mirror:
    """The newest known version of each object; `changed` hears of each change."""

    def __init__(
        self,
        api: KubeApi,
        kind: Kind,
        namespace: str | None,
        changed: Callable[[Manifest], None],
        *,
        labels: str = "",
    ) -> None:
        self._api, self._kind, self._namespace, self._labels = api, kind, namespace, labels
        self._changed = changed
        self._objects: dict[Key, Manifest] = {}
        self.is_filled = asyncio.Event()

    def get(self, key: Key) -> Manifest | None:
        """Return the object, or None where there is none."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[Manifest]:
        """Yield the objects."""
        yield from list(self._objects.values())

    def note(self, manifest: Manifest) -> None:
        """Take the answer to a write of our own, so that the next look sees it."""
        key = key_of(manifest)
        known = self._objects.get(key)
        if known is None or _version(known) <= _version(manifest):
            self._objects[key] = manifest

    async def run(self) -> None:
        """List and watch until cancelled, through every kind of trouble."""
        while True:
            try:
                await self._follow()
            except (ApiError, ClientError, TimeoutError, OSError) as error:
                _LOG.warning("watch of %s broke: %s", self._kind.plural, error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self) -> None:
        objects, version = await self._api.list_all(
            self._kind, self._namespace, labels=self._labels
        )
        gone = self._objects.keys() - {key_of(manifest) for manifest in objects}
        for manifest in [self._objects.pop(key) for key in gone] + objects:
            if key_of(manifest) not in gone:
                self.note(manifest)
            self._changed(manifest)
        self.is_filled.set()
        while True:
            async for what, manifest in self._api.watch(
                self._kind, self._namespace, version, labels=self._labels
            ):
                version = _metadata(manifest, "resourceVersion")
                if what != "BOOKMARK":
                    self._take(what, manifest)

    def _take(self, what: str, manifest: Manifest) -> None:
        if what == "DELETED":
            known = self._objects.get(key_of(manifest))
            if known is not None and _metadata(known, "uid") == _metadata(manifest, "uid"):
                del self._objects[key_of(manifest)]
        else:
            self.note(manifest)
        self._changed(manifest)


def _metadata(manifest: Manifest, field: str) -> str:
    metadata = manifest.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _version(manifest: Manifest) -> int:
    # Versions of one resource may be compared as numbers, says the API since Kubernetes 1.35.
    return int(_metadata(manifest, "resourceVersion") or 0)
