"""Navigation of the pages of an account."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section in the navigation; `view` is the name of its URL."""

    view: str
    label: str
    for_owners: bool = False


SECTIONS = (
    Section("overview", "Overview"),
    Section("jobs", "Jobs"),
    Section("clients", "Clients and keys"),
    Section("credits", "Credits"),
    Section("people", "People"),
    Section("audit", "Audit log", for_owners=True),
)
