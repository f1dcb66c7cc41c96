"""Admin forms with optimistic locking: a form is refused if its object has changed since it was opened."""

from typing import Any, ClassVar

from django import forms
from django.db import connection, models
from django.http import HttpRequest

from simservice.admin.actions import digest_of

# The field with a digest of the object when the form was opened
OPENED = "opened"
STALE = "Someone else has changed this since you opened the form. Open the page again and repeat your changes."


class OpenedForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that knows whether its object has changed since it was opened."""

    opened = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields[OPENED].initial = digest_of(self.initial)

    def is_stale(self) -> bool:
        """Return whether a validated form was opened before the last change of its object."""
        return self.instance.pk is not None and self.cleaned_data.get(OPENED) != digest_of(self.initial)


class FreshForm(OpenedForm):
    """A form that is refused if its object has changed since it was opened."""

    def clean(self) -> dict[str, Any] | None:
        if self.is_stale():
            raise forms.ValidationError(STALE)
        return super().clean()


class FreshFormMixin:
    """Admin pages that refuse a stale form. The object stays locked from the comparison to the change."""

    form: ClassVar[Any] = FreshForm

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> models.Model | None:
        """Return the object, locked if it can be changed."""
        found: models.Model | None = super().get_object(request, object_id, from_field)  # type: ignore[misc]
        if found is not None and request.method == "POST" and connection.in_atomic_block:
            objects = type(found)._default_manager  # noqa: SLF001 - documented by Django
            found.refresh_from_db(from_queryset=objects.select_for_update(no_key=True))
        return found
