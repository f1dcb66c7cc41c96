"""Links to the operator's chosen database of the game (GAME_DATABASE_URL). Nothing is loaded from it."""

from typing import Any, Literal

from django.conf import settings

# Ids of the game have fewer digits.
MAX_ID = 10**9


def link_to(kind: Literal["item", "spell"], number: Any) -> str:
    """Return the address of an item or a spell; empty without a database or without an id."""
    template: str = settings.GAME_DATABASE_URL
    is_id = isinstance(number, int) and not isinstance(number, bool) and 0 < number < MAX_ID
    return template.replace("{kind}", kind).replace("{id}", str(number)) if template and is_id else ""
