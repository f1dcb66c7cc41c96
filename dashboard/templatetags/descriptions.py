"""Template filter for the descriptions of the OpenAPI document."""

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
CODE = re.compile("`([^`]+)`")


@register.filter
def with_code(text: str) -> SafeString:
    """Return a description as HTML, with backticked text as code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(text)))  # noqa: S308 - the text has just been escaped
