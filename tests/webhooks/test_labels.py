"""Labels of webhook events and attempts."""

from collections.abc import Mapping

import pytest
from django.db.models import TextChoices

from webhooks import labels
from webhooks.models import Delivery, Event


@pytest.mark.parametrize(
    ("texts", "choices"),
    [
        (labels.STATES, Event.State),
        (labels.FAILURES, Event.Failure),
        (labels.OUTCOMES, Delivery.Outcome),
        (labels.PROBLEMS, Delivery.Problem),
    ],
    ids=["states", "failures", "outcomes", "problems"],
)
def test_every_choice_has_a_label(texts: Mapping[TextChoices, str], choices: type[TextChoices]) -> None:
    assert set(texts) == set(choices)


@pytest.mark.parametrize(
    ("state", "failures", "badge"),
    [
        ("waiting", 0, "quiet"),
        ("waiting", 1, "warn"),
        ("sending", 0, "quiet"),
        ("sending", 2, "warn"),
        ("delivered", 3, "good"),
        ("failed", 3, "bad"),
    ],
)
def test_the_badge_shows_the_state_and_failures(state: str, failures: int, badge: str) -> None:
    assert labels.state_badge(Event(state=state, failures=failures)) == badge
