"""kubectl and helm, aimed at one cluster."""

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.failure import ClusterError
from hack.cluster.pki import Signed
from hack.tools.finder import find

# Longer than any `kubectl wait` of a test; a hanging command is no way to end.
_PATIENCE_SECONDS = 1200


@dataclass(frozen=True)
class Client:
    """Runs the command line tools against one cluster, whatever the user's own settings are."""

    kubeconfig: Path
    # What stands before each command, such as `nsenter`.
    prefix: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that keep kubectl and helm away from the user's own folders."""
        kept = self.kubeconfig.parent / "client"
        names = ("KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        folders = {name: str(kept / name.lower()) for name in names}
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), **folders}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what kubectl printed. Raises ClusterError with what it complained about."""
        return self.run("kubectl", *arguments, stdin=stdin)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what helm printed. Raises ClusterError with what it complained about."""
        return self.run("helm", *arguments, stdin=stdin)

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Return the whole command line, for who wants to start it (use `environment` with it)."""
        return [*self.prefix, str(find(tool)), *arguments]

    def run(self, tool: str, *arguments: str, stdin: str | None = None) -> str:
        """Return what a tool printed. Raises ClusterError with what it complained about."""
        return run_tool(
            tool, *arguments, prefix=self.prefix, environment=self.environment, stdin=stdin
        )


def run_tool(
    tool: str,
    *arguments: str,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Return what a pinned tool printed. Raises ClusterError with what it complained about."""
    outcome = subprocess.run(
        [*prefix, str(find(tool)), *arguments],
        input=stdin or "",
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    if outcome.returncode != 0:
        said = "\n".join(part.strip() for part in (outcome.stderr, outcome.stdout) if part)
        raise ClusterError(f"{tool} {' '.join(arguments)}: {said}")
    return outcome.stdout


def write_kubeconfig(path: Path, url: str, authority: bytes, user: Signed) -> Path:
    """Write a kubeconfig that needs no other file, for the owner alone."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "local",
                "cluster": {"server": url, "certificate-authority-data": _encode(authority)},
            }
        ],
        "users": [
            {
                "name": "user",
                "user": {
                    "client-certificate-data": _encode(user.certificate),
                    "client-key-data": _encode(user.key),
                },
            }
        ],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user"}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=2))
    return path


def _encode(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
