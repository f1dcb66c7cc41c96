"""Columns of their own kind."""

import json
from typing import Any

from django.db import models


class OrderedJSONField(models.JSONField):
    """JSON whose objects keep the order of their keys, in a column of type `text`.

    `jsonb` would sort them, and the driver parses `json`, which processes of the version before do not expect.
    """

    def db_type(self, connection: Any) -> str:  # noqa: ARG002
        return "text"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> str:  # noqa: ARG002, FBT001, FBT002
        # As the values read, so that a search in the text finds them.
        return json.dumps(value, ensure_ascii=False)
