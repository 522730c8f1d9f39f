"""Prints what the files of a release were built from: an in-toto statement with SLSA provenance.

It reads SHA256SUMS from standard input and needs nothing but Python. The form is that of
https://slsa.dev/spec/v1.0/provenance. Its signature is made by hack/publish.sh.
"""

import argparse
import json
import sys
from typing import TypeAlias

REPOSITORY = "https://github.com/trainshed/trainshed"

Json: TypeAlias = "dict[str, Json] | list[Json] | str"


def make_statement(checksums: str, commit: str, builder: str) -> dict[str, Json]:
    """Return the provenance of files by the lines that sha256sum printed of them."""
    rows = [line.split(maxsplit=1) for line in checksums.splitlines()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for digest, name in rows],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{REPOSITORY}/blob/{commit}/hack/release.sh",
                "externalParameters": {},
                "resolvedDependencies": [
                    {"uri": f"git+{REPOSITORY}@{commit}", "digest": {"gitCommit": commit}}
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m hack.provenance", description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--builder", required=True, help="address of what runs the build")
    arguments = parser.parse_args()
    statement = make_statement(sys.stdin.read(), arguments.commit, arguments.builder)
    print(json.dumps(statement, indent=2))
