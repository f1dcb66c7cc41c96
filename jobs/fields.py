"""Model fields."""

import json
from typing import Any

from django.db import models


class OrderedJSONField(models.JSONField):
    """JSON that keeps the order of its keys, in a column of type `text`.

    `jsonb` sorts the keys, and the driver parses `json` before Django does.
    """

    def db_type(self, connection: Any) -> str:  # noqa: ARG002
        return "text"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> str:  # noqa: ARG002, FBT001, FBT002
        # Not escaped, so a text search of the column finds the values
        return json.dumps(value, ensure_ascii=False)
