"""The images of this repository: their names, and a fingerprint of all that goes into one."""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.images.failure import ImageError

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "ghcr.io/trainshed"
OTHER_FRAMEWORKS = ("xgboost", "tensorflow")

# As in .dockerignore: what a build does not see.
_UNSEEN = re.compile(r"(?:^|/)(?:__pycache__|[^/]*\.egg-info)(?:/|$)")


@dataclass(frozen=True)
class Image:
    """An image by the name that people call it by here."""

    name: str
    reference: str
    dockerfile: Path
    # The folder that a build sees.
    context: Path
    # Arguments of the build beside BASE and VERSION.
    arguments: tuple[tuple[str, str], ...] = ()

    def base(self) -> str:
        """Return the image that it is built on: the default of its argument BASE."""
        found = re.search(r"^ARG BASE=(\S+)$", self.dockerfile.read_text(), re.MULTILINE)
        if not found:
            raise ImageError(f"{self.dockerfile}: no line `ARG BASE=...`")
        return found[1]

    def inputs(self) -> Iterator[Path]:
        """Return the files that a build takes from the repository, in a fixed order."""
        yield self.dockerfile
        for source in self._copied():
            if source.is_file():
                yield source
            elif source.is_dir():
                yield from sorted(path for path in source.rglob("*") if self._is_seen(path))
            else:
                raise ImageError(f"{self.dockerfile}: COPY of {source}, which does not exist")

    def fingerprint(self) -> str:
        """Return a digest of all inputs: the same digest, the same image."""
        digest = hashlib.sha256()
        below = [image for image in list_images() if image.reference == self.base()]
        digest.update("".join(image.fingerprint() for image in below).encode())
        digest.update(repr(self.arguments).encode() if self.arguments else b"")
        for path in self.inputs():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(self.context)} {content}\n".encode())
        return digest.hexdigest()

    def _copied(self) -> Iterator[Path]:
        text = self.dockerfile.read_text()
        values = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE)) | dict(self.arguments)
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
            named = re.sub(r"\$\{(\w+)\}", lambda argument: values[argument[1]], line)
            *sources, _ = [word for word in named.split() if not word.startswith("--")]
            yield from (self.context / source for source in sources)

    def _is_seen(self, path: Path) -> bool:
        return path.is_file() and not _UNSEEN.search(str(path.relative_to(self.context)))


def version() -> str:
    """Return the version of this repository, the tag of its images."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def list_images() -> list[Image]:
    """Return every image that is released."""
    dockerfiles = sorted((ROOT / "images").glob("*/Dockerfile"))
    return [
        *(
            Image(path.parent.name, f"{REGISTRY}/{path.parent.name}:{version()}", path, ROOT)
            for path in dockerfiles
        ),
        *(_with_framework(name) for name in OTHER_FRAMEWORKS),
    ]


def _with_framework(name: str) -> Image:
    """Return the training image with one framework more."""
    dockerfile = ROOT / "images" / "app" / "Dockerfile"
    reference = f"{REGISTRY}/app:{version()}-{name}"
    return Image(f"app-{name}", reference, dockerfile, ROOT, (("FRAMEWORK", name),))


def list_test_images() -> list[Image]:
    """Return the images that stand in for others in tests. No registry has them."""
    dockerfile = ROOT / "tests" / "kuberay" / "Dockerfile"
    return [Image("kuberay", "localhost/trainshed/kuberay-stand-in:1.7.0", dockerfile, ROOT)]
