"""Template variables of every page, and the sections of the dashboard's navigation."""

from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest

from simservice.web import mail


class Section(NamedTuple):
    """An entry of the navigation. `view` is the URL name of its page and the section that pages name as theirs."""

    view: str
    label: str
    for_owners: bool = False


SECTIONS = (
    Section("overview", "Overview"),
    Section("jobs", "Jobs"),
    Section("history", "History"),
    Section("clients", "Clients and keys"),
    Section("credits", "Credits"),
    Section("people", "People"),
    Section("audit", "Audit log", for_owners=True),
    Section("account_data", "Data", for_owners=True),
)


def site(request: HttpRequest) -> dict[str, Any]:
    """Return the deployment's name, the navigation, and `access` on an account's pages (`dashboard/access.py`)."""
    return {
        "brand": settings.SERVICE_BRAND,
        "sends_email": mail.is_enabled(),
        "sections": SECTIONS,
        "access": getattr(request, "access", None),
    }
