"""What a TrainingRun in a cluster does after an attempt that failed."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from trainshed_api.errors import Problem, RuleError
from trainshed_api.schema import Integer, SpecModel, annotate

ExitCode = Annotated[int, Field(ge=1, le=255), Strict()]


class FailureRule(SpecModel):
    """What to do about failures of one kind, whatever they would count as otherwise."""

    exit_codes: tuple[ExitCode, ...] = Field(
        default=(),
        max_length=50,
        description="Exit codes of the driver that the rule is for; empty means any.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    log_pattern: str = Field(
        default="",
        max_length=256,
        description="Text that the failure's message or traceback contains, with * for anything; "
        "empty means any.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    action: Literal["Fail", "Retry"] = Field(
        description="Fail: no further attempt. Retry: counts as a failure of the infrastructure.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )

    @model_validator(mode="after")
    def _says_for_what(self) -> Self:
        if not self.exit_codes and not self.log_pattern:
            expected = "exitCodes, logPattern or both: a rule for every failure is the two budgets"
            raise RuleError([Problem("", "neither exitCodes nor logPattern", expected)])
        return self


class FailurePolicySpec(SpecModel):
    """How many failed attempts are followed by another one."""

    max_application_failures: Integer = Field(
        default=0,
        ge=0,
        le=1000,
        description="Failures of the program itself that are followed by another attempt.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    max_infrastructure_failures: Integer = Field(
        default=10,
        ge=0,
        le=1000,
        description="Lost nodes, stalls and the like that are followed by another attempt; being "
        "preempted is free.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    rules: tuple[FailureRule, ...] = Field(
        default=(),
        max_length=20,
        description="Exceptions; the first rule that fits decides.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
