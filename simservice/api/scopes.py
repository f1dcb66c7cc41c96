"""Scopes of API keys: what a key may do (`docs/reference/api.md#scopes`)."""

from django.db.models import TextChoices


class Scope(TextChoices):
    """What a key may do. Each scope includes those before it."""

    # Read everything; change and spend nothing.
    READ = "read"
    # Submit, check and cancel jobs.
    SUBMIT = "submit"
    # Every operation, including those that change what others see.
    MANAGE = "manage"

    def includes(self, other: "Scope") -> bool:
        """Return whether a key with this scope may do what `other` allows."""
        order = list(Scope)
        return order.index(self) >= order.index(other)
