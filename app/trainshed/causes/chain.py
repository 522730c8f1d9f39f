"""The chain of a run: its links, the one that broke or waits, and what to type next. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal

from trainshed.failures import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.failures import Kind

LinkName = Literal["file", "admission", "RayJob", "head", "workers", "driver", "data", "training"]
LinkState = Literal["ok", "waiting", "failed", "unknown"]


@dataclass(frozen=True)
class Link:
    """One part of a run that has to work.

    Args:
        name: of the part.
        state: of it; unknown if its facts cannot be read.
        says: the state in one sentence.
        evidence: further facts, one a line.
        time: when it broke, in seconds since 1970; None if nothing says so.
    """

    name: LinkName
    state: LinkState
    says: str = ""
    evidence: tuple[str, ...] = ()
    time: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a run.

    Args:
        run: its name.
        where: its folder, or its namespace in Kubernetes.
        state: of the run, in one word.
        links: in the order in which a run needs them.
        healthy: what to say if no link broke or waits.
        is_over: whether the run has ended, so that it waits for nothing.
        limit: what makes it slow, if anything does.
        start: seconds of each phase of the start, by its name.
        events: of Kubernetes, one a line.
        log: the lines of the log that tell of the failure.
        commands: the next command, by the link that needs it; "" for any other.
    """

    run: str
    where: str
    state: str
    links: tuple[Link, ...]
    healthy: str
    is_over: bool
    limit: str = ""
    start: Mapping[str, float] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    commands: Mapping[LinkName | Literal[""], str] = field(default_factory=dict)

    @property
    def culprits(self) -> tuple[Link, ...]:
        """Return the links that broke, the first one first; if none did, those that wait."""
        failed = [link for link in self.links if link.state == "failed"]
        if failed or self.is_over:
            return tuple(sorted(failed, key=lambda link: inf if link.time is None else link.time))
        return tuple(link for link in self.links if link.state == "waiting")

    @property
    def cause(self) -> str:
        """Return the cause in one sentence, with what followed it."""
        said = [link.says for link in self.culprits[:2]]
        return "; then ".join(dict.fromkeys(said)) or self.limit or self.healthy

    @property
    def page(self) -> str:
        """Return the address of the section about the cause; empty if nothing broke or waits."""
        if not self.culprits:
            return ""
        first = self.culprits[0]
        kind = kind_of(first.says)
        error = _LISTED_ERROR.search(first.says)
        title = title_of(RULES[kind].says) if kind else error[0] if error else first.name
        return f"{PAGE}#{title.lower().replace(' ', '-')}"

    @property
    def next(self) -> str:
        """Return the command to type next."""
        for link in self.culprits:
            if link.name in self.commands:
                return self.commands[link.name]
        return self.commands.get("", "")


# Where the documentation has a section for each kind of failure, for the errors that it lists by
# name, and for each link.
PAGE = "https://trainshed.github.io/trainshed/troubleshooting/"
_LISTED_ERROR = re.compile(
    r"\b(NonFiniteLoss|UnsupportedWrapper|UnsavableState|OtherParameters)Error\b"
)
_LINKS: Mapping[Kind, LinkName] = {
    "code": "training",
    "data": "data",
    "slice": "training",
    "memory": "workers",
    "shared": "workers",
    "killed": "workers",
    "full": "driver",
    "scratch": "driver",
    "damaged": "driver",
    "gpu": "workers",
    "storage": "driver",
    "network": "driver",
    "node": "workers",
    "start": "driver",
    "timeout": "workers",
    "peer": "workers",
}
OUT_OF_MEMORY = re.compile(
    r"\b(MemoryError|OutOfMemoryError|ObjectStoreFullError)\b|Cannot allocate memory|out of memory"
)
# How the coordinator begins what it says of slow data.
SLOW_DATA = re.compile(r"waiting for data takes")
# In order: the first one that is found decides.
_WORDS: tuple[tuple[LinkName, re.Pattern[str]], ...] = (
    ("workers", OUT_OF_MEMORY),
    ("data", re.compile(r"^(Data|Function)Error\b|spec\.data\.")),
    # A module that a later step imports is the function's own.
    ("file", re.compile(r"\b(ModuleNotFound|Import)Error\b(?!.*, step [1-9])")),
    ("file", re.compile(r"\b(Load|Spec)Error\b|^(\S+:\d+: )?spec\.\w|runtime_env")),
    ("driver", re.compile(r"LastCheckpointError|Read-only file system|the coordinator process")),
)
_ERROR_LINE = re.compile(
    r"^\s*([\w.]+\.)?\w*(Error|Exception|Exit|Interrupt)\b|\b(ERROR|FATAL|CRITICAL)\b"
    r"|^error: |terminate called|Segmentation fault"
)
# Ray also says it of tasks that it ends itself.
_ERRORS = (_ERROR_LINE, re.compile(r"[Kk]illed"))
_SHOWN_LINES = 6


def kind_of(message: str) -> Kind | None:
    """Return the kind of failure whose text a message has; None if it has none."""
    return next((kind for kind, rule in RULES.items() if rule.says and rule.says in message), None)


def title_of(says: str) -> str:
    """Return the title of the section about the text of a kind of failure: its first sentence."""
    return re.split(r"\.| \(", says)[0]


def broken_link(message: str) -> LinkName:
    """Return the link that the message of a failed attempt is about."""
    if kind := kind_of(message):
        return _LINKS[kind]
    return next((name for name, words in _WORDS if words.search(message)), "training")


def telling_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the last error of a log with the lines before it; the last lines if none is one."""
    found = ([at for at, line in enumerate(lines) if each.search(line)] for each in _ERRORS)
    errors = next(filter(None, found), [])
    end = errors[-1] + 1 if errors else len(lines)
    return tuple(lines[max(0, end - _SHOWN_LINES) : end])
