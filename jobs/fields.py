"""Model fields."""

import json
from functools import partial
from typing import Any

from django.db import models
from psycopg.types.json import Json

# Not escaped, so that a search in the text of the column finds the values.
dumps = partial(json.dumps, ensure_ascii=False)


class OrderedJSONField(models.JSONField):
    """JSON that keeps the order of keys: a column of type `json`, because `jsonb` sorts them."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:  # noqa: ARG002
        """Return the value unchanged: the driver has parsed it."""
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Json:  # noqa: ARG002, FBT001, FBT002
        return Json(value, dumps=dumps)
