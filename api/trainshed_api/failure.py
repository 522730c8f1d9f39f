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
        description="Exit codes of the driver that the rule matches; empty means any.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    log_pattern: str = Field(
        default="",
        max_length=256,
        description="Text that the message or traceback of the failure contains; * matches any "
        "text, empty means any.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    action: Literal["Fail", "Retry"] = Field(
        description="Fail: do not retry. Retry: count it as a failure of the infrastructure.",
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
        description="Failures of your program that are retried.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    max_infrastructure_failures: Integer = Field(
        default=10,
        ge=0,
        le=1000,
        description="Failures of the infrastructure, such as lost nodes and stalls, that are "
        "retried. Preemptions are not counted.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    rules: tuple[FailureRule, ...] = Field(
        default=(),
        max_length=20,
        description="Exceptions from these limits; the first matching rule applies.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
