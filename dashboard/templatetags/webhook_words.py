"""Webhook events and their attempts in words, for templates."""

from django import template

from webhooks import wording

register = template.Library()
for word in (wording.state, wording.failure, wording.outcome, wording.problem):
    register.filter(word.__name__, word)
