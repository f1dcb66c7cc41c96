"""Webhook events and their attempts in words, for templates."""

from django import template

from webhooks import labels

register = template.Library()
for word in (labels.state, labels.failure, labels.outcome, labels.problem):
    register.filter(word.__name__, word)
