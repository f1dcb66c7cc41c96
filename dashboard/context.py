"""Template variables of every page, and the navigation.

The bar links to areas. An area with several sections has a list of them beside its pages. A page belongs to the
section that its view names as `section`, by default the one that has its URL name.
"""

from functools import cached_property
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from clients import members
from clients.members import Role
from clients.models import Membership
from dashboard.access import AccountAccess
from simservice.web import mail

# Key in the session of the account whose overview the user opened last
LAST_ACCOUNT = "account"


class Section(NamedTuple):
    """An entry of an area's list.

    `view` is the URL name of its page, `pages` those of pages below it. `heading` is the heading of this and the
    following entries of the list.
    """

    view: str
    label: str
    role: Role = Role.VIEWER
    of_account: bool = True
    pages: tuple[str, ...] = ()
    heading: str = ""


class Area(NamedTuple):
    """An entry of the bar, which leads to its first section."""

    label: str
    sections: tuple[Section, ...]


# The settings of a user's login
LOGIN_PAGES = (
    "account_email",
    "account_change_password",
    "account_set_password",
    "account_reauthenticate",
    "mfa_reauthenticate",
    "mfa_index",
    "mfa_activate_totp",
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
    "usersessions_list",
    "delete_user",
)
AREAS = (
    Area("Simulate", (Section("submit_job", "Simulate", role=Role.MEMBER),)),
    Area("Results", (Section("jobs", "Results"),)),
    Area("Characters", (Section("history", "Characters"),)),
    Area(
        "Developers",
        (
            Section("clients", "Clients and keys"),
            Section(
                "docs",
                "API documentation",
                of_account=False,
                pages=("resource", "object", "reference", "guides", "guide"),
            ),
        ),
    ),
    Area(
        "Settings",
        (
            Section("credits", "Credits", heading="Account"),
            Section("usage", "Usage"),
            Section("people", "People"),
            Section("audit", "Audit log", role=Role.OWNER),
            Section("account_data", "Data", role=Role.OWNER),
            Section("profile", "Login and security", of_account=False, heading="You", pages=LOGIN_PAGES),
            Section("user_data", "Your data", of_account=False),
        ),
    ),
)
SECTION_OF = {
    name: section.view
    for area in AREAS
    for section in area.sections
    for name in (section.view, *section.pages)
    if not section.of_account
}


class Link(NamedTuple):
    """A section with its address."""

    section: Section
    url: str


class AreaLinks(NamedTuple):
    """The sections of an area that the user may open."""

    label: str
    links: list[Link]

    @property
    def url(self) -> str:
        return self.links[0].url

    @property
    def views(self) -> frozenset[str]:
        return frozenset(link.section.view for link in self.links)


class Navigation:
    """The links of a logged-in user. It reads the database only if a template uses it."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def access(self) -> AccountAccess | None:
        """Return the account of the page, else the user's last one, else the first one."""
        opened: AccountAccess | None = getattr(self._request, "access", None)
        if opened is not None:
            return opened
        last = self._request.session.get(LAST_ACCOUNT)
        chosen = next((one for one in self.memberships if one.account.name == last), None)
        membership = chosen or next(iter(self.memberships), None)
        return AccountAccess(membership, self._request, self.memberships) if membership else None

    def remember_account(self) -> None:
        """Make the account of the page the user's last one. Written only for users with several, on a change."""
        name = self.access and self.access.account.name
        if len(self.memberships) > 1 and self._request.session.get(LAST_ACCOUNT) != name:
            self._request.session[LAST_ACCOUNT] = name

    @cached_property
    def memberships(self) -> list[Membership]:
        """Return the user's memberships for the account menu, at most `members.MAX_LISTED`."""
        opened: AccountAccess | None = getattr(self._request, "access", None)
        if opened is not None:
            return opened.memberships
        return list(members.memberships_of(self._request.user)[: members.MAX_LISTED])  # type: ignore[arg-type]

    @cached_property
    def areas(self) -> list[AreaLinks]:
        """Return the areas with at least one section for the user."""
        areas = [AreaLinks(area.label, [*map(self._link, filter(self._may_open, area.sections))]) for area in AREAS]
        return [area for area in areas if area.links]

    def _may_open(self, section: Section) -> bool:
        if not section.of_account:
            return True
        return self.access is not None and members.ranks_at_least(self.access.membership.role, section.role)

    def _link(self, section: Section) -> Link:
        arguments = [self.access.account.name] if section.of_account and self.access else []
        return Link(section, reverse(section.view, args=arguments))


def site(request: HttpRequest) -> dict[str, Any]:
    """Return the deployment's name and links, the navigation, and `access` on an account's pages."""
    match = request.resolver_match
    return {
        "brand": settings.SERVICE_BRAND,
        "sends_email": mail.is_enabled(),
        "may_sign_up": settings.ALLOW_SIGNUP,
        "footer_links": settings.FOOTER_LINKS,
        "is_in_maintenance": settings.MAINTENANCE_SECONDS > 0,
        "navigation": Navigation(request),
        "section": SECTION_OF.get((match and match.url_name) or "", ""),
        "access": getattr(request, "access", None),
    }
