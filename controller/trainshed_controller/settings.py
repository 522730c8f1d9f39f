"""What the platform says: read once, from the environment and the one file of classes."""

from __future__ import annotations

import socket
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import InstanceOf, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from trainshed_api.json_object import as_object
from trainshed_controller.model import ClusterClass, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.json_object import JsonObject

PREFIX = "TRAINSHED_CONTROLLER_"
KUBECONFIG = "KUBECONFIG"


class SettingsError(ValueError):
    """A setting that cannot be used: which, what it is, and what would be right."""


@dataclass(frozen=True)
class Timings:
    """How patient this process is with the API server."""

    request_seconds: float = 20.0
    """For an answer; what is not answered by then failed."""
    silence_seconds: float = 70.0
    """Seconds of silence after which a kind is listed again; bookmarks arrive each minute."""
    retry_seconds: float = 1.0
    """Between two tries of what has to succeed before the work begins."""


@dataclass(frozen=True)
class Platform:
    """How this process is set up; each field but the first has a variable of its name.

    identity: of this replica; the same in its next life. pod_ip, progress_port: where other
    replicas reach it.
    """

    settings: InstanceOf[Settings]
    kubeconfig: Path | None = None
    namespace: str = "default"
    key_secret: str = "trainshed-progress-key"
    lease: str = "trainshed-controller"
    identity: str = field(default_factory=socket.gethostname)
    pod_ip: str = "127.0.0.1"
    ray_token_file: Path | None = None
    host: str = "0.0.0.0"
    progress_port: int = 8081
    health_port: int = 8080
    workers: int = 32
    resync_seconds: float = 300.0
    progress_interval_seconds: float = 10.0
    uninstall_seconds: float = 240.0
    webhook_url_file: Path | None = None
    webhook_format: Literal["json", "slack"] = "json"
    webhook_conditions: str = ""
    timings: InstanceOf[Timings] = Timings()

    @property
    def webhook_kinds(self) -> frozenset[str]:
        """Return the types of conditions that are posted to the webhook."""
        return frozenset(_names(self.webhook_conditions))

    @property
    def progress_address(self) -> str:
        """Return where other replicas reach it, as HOST:PORT."""
        ip = f"[{self.pod_ip}]" if ":" in self.pod_ip else self.pod_ip
        return f"{ip}:{self.progress_port}"


_PLATFORMS = TypeAdapter(Platform)


def read_platform(environment: Mapping[str, str]) -> Platform:
    """Return the set-up. Raises SettingsError."""

    def get(name: str, fallback: str = "") -> str:
        return environment.get(PREFIX + name, fallback)

    files = (get("CLASSES_FILE"), get("PERMISSIONS_FILE"))
    classes, permissions = (Path(name) if name else None for name in files)
    settings = Settings(
        default_cluster=get("DEFAULT_CLUSTER", "trainshed"),
        shared_clusters=frozenset(_names(get("SHARED_CLUSTERS"))),
        progress_url=get("PROGRESS_URL"),
        dashboard_url=get("DASHBOARD_URL", "http://{cluster}-head-svc.{namespace}.svc:8265"),
        classes=read_classes(classes, permissions) if classes else {},
        isolates_clusters=get("NETWORK_POLICY") == "true",
    )
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if value and (name == KUBECONFIG or name.startswith(PREFIX))
    }
    try:
        platform = _PLATFORMS.validate_python({**given, "settings": settings, "timings": Timings()})
    except ValidationError as error:
        first = error.errors()[0]
        name, text = str(first["loc"][0]).upper(), first["input"]
        kind = first["type"].partition("_")[0]
        expected = {"int": "a whole number", "literal": "json or slack"}.get(kind, "a number")
        raise SettingsError(f'{PREFIX}{name}: got "{text}"; expected {expected}') from None
    interval = platform.progress_interval_seconds
    return replace(platform, settings=replace(settings, progress_interval_seconds=interval))


def read_classes(path: Path, permissions: Path | None = None) -> dict[str, ClusterClass]:
    """Return the classes of clusters by name: a map from name to RayClusterSpec.

    permissions: file with a map from name to what runs may set, by kind.

    Raises SettingsError for a file that cannot be read or holds something else.
    """
    permitted = _read_map("PERMISSIONS_FILE", permissions, "permissions") if permissions else {}
    classes = {}
    for name, spec in _read_map("CLASSES_FILE", path, "RayClusterSpec").items():
        if "headGroupSpec" not in as_object(spec):
            raise SettingsError(
                f"{PREFIX}CLASSES_FILE: {path}: class {name}: expected a RayClusterSpec, with "
                "headGroupSpec"
            )
        allowed = {
            kind: tuple(map(str, names))
            for kind, names in as_object(permitted.get(name)).items()
            if isinstance(names, list)
        }
        classes[str(name)] = ClusterClass(str(name), as_object(spec), allowed)
    return classes


def _read_map(variable: str, path: Path, of: str) -> JsonObject:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"{PREFIX}{variable}: {path}: {error}") from None
    if loaded is not None and not isinstance(loaded, dict):
        raise SettingsError(f"{PREFIX}{variable}: {path}: expected a map from name to {of}")
    return as_object(loaded)


def _names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
