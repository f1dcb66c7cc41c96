"""Sections of the dashboard's navigation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
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
