"""What the platform says: read once, from the environment and the one file of classes."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

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
    """How this process is set up.

    identity: of this replica; the same in its next life. progress_address: where other replicas
    reach it, as HOST:PORT.
    """

    settings: Settings
    own_namespace: str
    key_secret: str
    lease: str
    identity: str
    progress_address: str
    kubeconfig: Path | None
    token_file: Path | None
    progress_host: str
    progress_port: int
    health_port: int
    workers: int
    resync_seconds: float
    log_format: str
    uninstall_seconds: float
    timings: Timings = Timings()


def read_platform(environment: Mapping[str, str]) -> Platform:
    """Return the set-up. Raises SettingsError."""

    def get(name: str, fallback: str = "") -> str:
        return environment.get(PREFIX + name, fallback)

    own = get("NAMESPACE", "default")
    if set(_names(get("WATCH_NAMESPACES", own))) - {own}:
        raise SettingsError(
            f'{PREFIX}WATCH_NAMESPACES: got "{get("WATCH_NAMESPACES")}"; expected "{own}" or '
            "nothing: a controller serves its own namespace only"
        )
    classes, permissions = get("CLASSES_FILE"), get("PERMISSIONS_FILE")
    ip, port = get("POD_IP", "127.0.0.1"), int(_number(get, "PROGRESS_PORT", "8081"))
    kubeconfig = environment.get(KUBECONFIG, "")
    return Platform(
        settings=Settings(
            default_cluster=get("DEFAULT_CLUSTER", "trainshed"),
            shared_clusters=frozenset(_names(get("SHARED_CLUSTERS"))),
            progress_url=get("PROGRESS_URL"),
            dashboard_url=get("DASHBOARD_URL", "http://{cluster}-head-svc.{namespace}.svc:8265"),
            classes=read_classes(Path(classes), Path(permissions) if permissions else None)
            if classes
            else {},
            progress_interval_seconds=_number(get, "PROGRESS_INTERVAL_SECONDS", "10"),
            isolates_clusters=get("NETWORK_POLICY") == "true",
        ),
        own_namespace=own,
        key_secret=get("KEY_SECRET", "trainshed-progress-key"),
        lease=get("LEASE", "trainshed-controller"),
        identity=get("IDENTITY", socket.gethostname()),
        progress_address=f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}",
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        token_file=Path(get("RAY_TOKEN_FILE")) if get("RAY_TOKEN_FILE") else None,
        progress_host=get("HOST", "0.0.0.0"),
        progress_port=port,
        health_port=int(_number(get, "HEALTH_PORT", "8080")),
        workers=int(_number(get, "WORKERS", "32")),
        resync_seconds=_number(get, "RESYNC_SECONDS", "300"),
        log_format=get("LOG_FORMAT", "json"),
        uninstall_seconds=_number(get, "UNINSTALL_SECONDS", "240"),
    )


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


def _number(get: object, name: str, fallback: str) -> float:
    assert callable(get)
    text = get(name, fallback)
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f'{PREFIX}{name}: got "{text}"; expected a number') from None
