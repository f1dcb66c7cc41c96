"""Template filters for labels of webhook events and their attempts."""

from django import template

from webhooks import labels

register = template.Library()
for label in (
    labels.summary,
    labels.kind,
    labels.state,
    labels.state_badge,
    labels.failure,
    labels.outcome,
    labels.outcome_badge,
    labels.problem,
):
    register.filter(label.__name__, label)
register.filter("advice", labels.delivery_advice)
