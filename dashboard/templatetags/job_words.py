"""Jobs in words, for templates."""

from django import template

from jobs import wording

register = template.Library()
register.filter("status_of", wording.status_of)
