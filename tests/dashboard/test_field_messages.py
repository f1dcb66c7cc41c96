"""The messages of fields: none is the framework's, in forms, in the admin and in the API."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import models

import dashboard
import simservice.urls  # noqa: F401 - registers the admin and the converters of addresses
from jobs.api.submission_request import SubmissionFields, from_json
from simservice.api.errors import ValidationFailed
from tests.jobs.api.bodies import body_with

FRAMEWORK = re.compile(
    r"This field|Ensure |Select a valid|Not a valid|Must be a valid|may not|Null characters|cannot be (null|blank)|"
    r"No file was|submitted file|expected|characters allowed|Enter a valid value|is not one of"
)
BAD: list[Any] = [None, "", " ", "x" * 20_000, "\0", "-1", "0", "1.5", "9" * 30, "x", "\ud800", [], ["x"], {}, True]


def form_classes() -> Iterator[type[forms.Form]]:
    """Yield the forms of the dashboard."""
    for module in pkgutil.walk_packages(dashboard.__path__, "dashboard."):
        if ".management" not in module.name:
            importlib.import_module(module.name)
    seen = {forms.Form}
    while fresh := {child for each in seen for child in each.__subclasses__()} - seen:
        seen |= fresh
    yield from (each for each in seen if each.__module__.startswith("dashboard."))


def messages_of(field: forms.Field) -> Iterator[str]:
    """Yield the messages of a form field about bad values."""
    for value in BAD:
        try:
            field.clean(value)
        except ValidationError as error:
            yield from error.messages
        except (TypeError, AttributeError):
            pass  # No browser can send this value.


def admin_fields() -> Iterator[tuple[str, forms.Field]]:
    """Yield the form fields of the models in the admin."""
    for model in admin.site._registry:
        for field in model._meta.get_fields():
            if isinstance(field, models.Field) and not field.is_relation and (found := field.formfield()):
                yield f"{model.__name__}.{field.name}", found


def test_forms_use_own_messages() -> None:
    found = {
        f"{form.__name__}.{name}": message
        for form in form_classes()
        for name, field in form.base_fields.items()
        for message in messages_of(field)
        if FRAMEWORK.search(message)
    }
    assert found == {}


def test_the_admin_uses_own_messages() -> None:
    found = {(name, message) for name, field in admin_fields() for message in messages_of(field)}
    assert len(found) > 20
    assert {each for each in found if FRAMEWORK.search(each[1])} == set()


def paths_in(fields: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all fields of a submission."""
    for name, field in fields.items():
        yield prefix + name
        yield from paths_in(getattr(field, "fields", {}), f"{prefix}{name}.")


@pytest.mark.parametrize("path", list(paths_in(SubmissionFields().fields)))
def test_the_api_uses_own_messages(path: str) -> None:
    refused = 0
    for value in [*BAD, -1, 0, 1.5, 10**400, {"a": 1}]:
        try:
            from_json(body_with(path, value))
        except ValidationFailed as error:
            refused += 1
            messages = [issue["message"] for issue in error.issues]
            assert [message for message in messages if FRAMEWORK.search(message)] == []
            assert all(message.endswith(".") for message in messages)
    assert refused


def test_missing_fields_are_named_in_own_words() -> None:
    bodies: list[Any] = [
        {},
        {"build": {}, "profile": {}},
        {"build": {"channel": "latest"}, "profile": {"text": None}},
    ]
    for body in bodies:
        with pytest.raises(ValidationFailed) as raised:
            from_json(body)
        assert {issue["message"] for issue in raised.value.issues} <= {
            "Required. Add a value.",
            "Must not be null.",
        }
