"""The code section of a TrainingRun: what a run needs beyond what the cluster's image holds."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.names import BUCKET_SCHEMES
from trainshed_api.schema import NonEmpty, SpecModel, annotate

# What the run's driver fetches, or Ray; everything else is a folder of whoever starts the run.
REMOTE_ARCHIVE = rf"^(https|{'|'.join(BUCKET_SCHEMES)}|azure|file)://.+\.zip$"
_BUCKETS = tuple(f"{scheme}://" for scheme in BUCKET_SCHEMES)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
# `pip install` would read these as options, or as another file than the one that is meant.
_NO_REQUIREMENT = re.compile(r"^[-.\s]|[\r\n]")


class CodeSpec(SpecModel):
    """Code of the user's own that is brought to the cluster: Ray's runtime environment."""

    working_dir: NonEmpty | None = Field(
        default=None,
        description="Working directory of the run's processes, from which they import. Set the "
        "address of a .zip that the cluster can read, such as s3://bucket/code.zip. "
        "For the command line only, set a local folder beside the TrainingRun file, "
        "which `trainshed apply` and `trainshed submit` upload.",
        json_schema_extra=annotate("both", "suspended"),
    )
    pip: tuple[NonEmpty, ...] = Field(
        default=(),
        description="Python packages to install before the run, such as einops==0.8. On a laptop,"
        " install them yourself.",
        json_schema_extra=annotate("both", "suspended"),
    )

    @property
    def is_remote(self) -> bool:
        """Say whether the working directory is fetched by the cluster itself."""
        return self.working_dir is not None and bool(_ADDRESS.match(self.working_dir))

    @property
    def is_in_bucket(self) -> bool:
        """Say whether the driver fetches it, with the client and credentials of the storage."""
        return self.is_remote and str(self.working_dir).startswith(_BUCKETS)

    @model_validator(mode="after")
    def _ray_understands_it(self) -> Self:
        problems = [
            Problem(f"pip[{index}]", show_value(text), "a requirement such as einops==0.8")
            for index, text in enumerate(self.pip)
            if _NO_REQUIREMENT.search(text)
        ]
        folder = self.working_dir
        if folder and self.is_remote and not re.match(REMOTE_ARCHIVE, folder):
            expected = (
                "the address of a .zip (https, s3, gs, abfs, abfss, az or file), or a local folder"
            )
            problems.append(Problem("workingDir", show_value(folder), expected))
        if problems:
            raise RuleError(problems)
        return self
