"""A contract for import-linter: what is private to a library is imported by some packages alone.

import-linter itself sees a library as one module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grimp import ImportGraph
    from importlinter.domain.imports import Module

# In a line that imports: `_private` and `_internal` packages, and what Ray's protoc has written.
PRIVATE = re.compile(r"\b(_private|_internal|core\.generated)\b")


class PrivateContract(Contract):
    """Holds what is private to `library` in the modules and packages that are `allowed`."""

    type_name = "private"
    library = fields.StringField()
    allowed = fields.SetField(subfield=fields.ModuleField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Return the imports that are not allowed, as lines for a person."""
        found = sorted(self._forbidden(graph))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print them."""
        for line in check.metadata["found"]:
            output.print_error(line)

    def _forbidden(self, graph: ImportGraph) -> Iterator[str]:
        library = cast("str", self.library)
        allowed = cast("set[Module]", self.allowed)
        for importer in graph.find_modules_that_directly_import(library):
            if any(f"{importer}.".startswith(f"{package.name}.") for package in allowed):
                continue
            for each in graph.get_import_details(importer=importer, imported=library):
                if PRIVATE.search(each["line_contents"]):
                    yield f"{importer}, line {each['line_number']}: {each['line_contents']}"
