"""The sections of an account's pages: the first name of each is its view's."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """An entry of the navigation; `view` names the address and marks the section that a page belongs to."""

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
