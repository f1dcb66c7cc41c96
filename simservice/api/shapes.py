"""Types of JSON values that all endpoints share.

A shape is a TypedDict: mypy checks the code that builds a response against it, and the OpenAPI document is
generated from it. The arguments of `Annotated` are for the document only: a string is a description, a `Rule`
contains keywords of JSON Schema.
"""

from typing import Annotated, Any, NotRequired, TypedDict


class Rule:
    """Keywords of JSON Schema that a type cannot express."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


Time = Annotated[
    str, Rule(format="date-time", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")
]
Date = Annotated[str, Rule(format="date")]
Url = Annotated[str, Rule(format="uri")]
Uuid = Annotated[str, Rule(format="uuid")]
Id = Annotated[str, Rule(pattern="^[0-9]{18}$")]
Count = Annotated[int, Rule(minimum=0)]
Percent = Annotated[float, Rule(minimum=0, maximum=100)]
FreeObject = dict[str, Any]


class Error(TypedDict):
    """An error. Programs should use `code`; the text of `error` can change at any time."""

    error: Annotated[str, "What went wrong, as a sentence"]
    code: Annotated[str, "Stable code for programs"]
    meta: Annotated[FreeObject | None, "Details that depend on the code, or null"]
    requestId: Annotated[str, Rule(pattern="^req_[0-9a-f]{32}$"), "The same as in the X-Request-Id header"]
    priorityFeeCredits: NotRequired[Annotated[int, "Present if the account cannot pay for a high-priority job"]]
