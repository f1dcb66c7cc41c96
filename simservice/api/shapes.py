"""The forms of JSON that every endpoint shares.

A shape is a TypedDict: what builds an answer is checked against it, and the OpenAPI document is made from it.
What `Annotated` adds is for the document alone: a text describes, a Rule holds keywords of JSON Schema.
"""

from typing import Annotated, Any, NotRequired, TypedDict


class Rule:
    """What a value must be beside its type, in keywords of JSON Schema."""

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
    """What every answer that is no success says. Branch on `code`; `error` may be reworded at any time."""

    error: Annotated[str, "What went wrong, in words"]
    code: Annotated[str, "Stable, for programs"]
    meta: Annotated[FreeObject | None, "What the code's description says, or null"]
    requestId: Annotated[str, Rule(pattern="^req_[0-9a-f]{32}$"), "The same as in the X-Request-Id header"]
    priorityFeeCredits: NotRequired[Annotated[int, "There when a high-priority submission cannot be paid"]]
