"""The messages of form fields, in place of the framework's."""

from django import forms
from django.core import validators
from django.db import models

FILL_IN = "Fill in this field."
CHOOSE = "Choose one of the listed options."
# Messages of form fields and of model fields, by their key.
FIELDS: dict[type[forms.Field] | type[models.Field], dict[str, str]] = {  # type: ignore[type-arg]
    forms.Field: {"required": FILL_IN},
    forms.ChoiceField: {"invalid_choice": CHOOSE},
    forms.MultipleChoiceField: {"invalid_choice": CHOOSE, "invalid_list": CHOOSE},
    forms.ModelChoiceField: {"invalid_choice": CHOOSE},
    forms.ModelMultipleChoiceField: {"invalid_choice": CHOOSE, "invalid_list": CHOOSE, "invalid_pk_value": CHOOSE},
    forms.FileField: {
        "invalid": "The browser did not send the file. Choose it again.",
        "missing": "The browser did not send the file. Choose it again.",
        "empty": "The file is empty. Choose another file.",
        "max_length": "The file name has %(length)d characters. Shorten it to at most %(max)d.",
    },
    models.Field: {
        "null": FILL_IN,
        "blank": FILL_IN,
        "invalid_choice": CHOOSE,
        "unique": "Another %(model_name)s has this value. Enter a different one.",
    },
}
VALIDATORS: dict[type[validators.BaseValidator] | type[validators.ProhibitNullCharactersValidator], str] = {
    validators.MaxValueValidator: "Enter a number of at most %(limit_value)s.",
    validators.MinValueValidator: "Enter a number of at least %(limit_value)s.",
    validators.MaxLengthValidator: "Enter at most %(limit_value)d characters. You entered %(show_value)d.",
    validators.MinLengthValidator: "Enter at least %(limit_value)d characters. You entered %(show_value)d.",
    validators.ProhibitNullCharactersValidator: "Remove the NUL characters.",
}


def replace_messages() -> None:
    """Use the messages in all fields that are made from now on."""
    for field, messages in FIELDS.items():
        field.default_error_messages = {**field.__dict__.get("default_error_messages", {}), **messages}
    for validator, message in VALIDATORS.items():
        validator.message = message
