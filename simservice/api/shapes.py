"""The forms of JSON that every endpoint shares.

A shape is a TypedDict: what builds an answer is checked against it, and the OpenAPI document is made from it.
What `Annotated` adds is for the document alone: a text describes, a mapping holds keywords of JSON Schema.
"""

from typing import Annotated, Any, TypedDict

Time = Annotated[str, {"format": "date-time"}]
Date = Annotated[str, {"format": "date"}]
Url = Annotated[str, {"format": "uri"}]
Uuid = Annotated[str, {"format": "uuid"}]
Id = Annotated[str, {"pattern": "^[0-9]{18}$"}]
Count = Annotated[int, {"minimum": 0}]
Percent = Annotated[float, {"minimum": 0, "maximum": 100}]
FreeObject = dict[str, Any]


class Error(TypedDict):
    """What every answer that is no success says. Branch on `code`; `error` may be reworded at any time."""

    error: Annotated[str, "What went wrong, in words"]
    code: Annotated[str, "Stable, for programs"]
    meta: Annotated[FreeObject | None, "What the code's description says, or null"]
    requestId: Annotated[str, {"pattern": "^req_[0-9a-f]{32}$"}, "The same as in the X-Request-Id header"]
