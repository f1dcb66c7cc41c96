"""Search of the admin for an object by any of its identifiers, or for jobs by title or character."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import Truncator
from django.views.decorators.http import require_http_methods

from billing.models import Account, Entry, Grant, Hold, Plan
from clients import keys
from clients.models import ApiKey, AuditEvent, Client, Invitation, Membership
from jobs.models import Artifact, Build, Job, Run
from jobs.results import queries
from privacy.models import AccountDeletion, Export
from simservice.admin.base import admin_url, may_view
from simservice.ids import TOKEN_CHARACTERS
from webhooks.models import Delivery, Endpoint, Event

MAX_CHARACTERS = 254
# Objects of one kind
MAX_MATCHES = 10
REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")
REQUEST_ID_HINT = "This is a request ID. Requests are not stored: search the logs for it."


class Lookup(NamedTuple):
    """How objects of a model are found: the terms that fit, the condition for one, and the object to show."""

    pattern: str
    model: type[Model]
    condition: Callable[[str], Mapping[str, Any]]
    shown: Callable[[Any], Model] = lambda found: found


class Match(NamedTuple):
    """An object that was found: the name of its model, its own name, and its address in the admin."""

    kind: str
    name: str
    url: str


def by(field: str) -> Callable[[str], dict[str, Any]]:
    """Return the condition that a field equals the term."""
    return lambda term: {field: term}


def _titled(term: str) -> list[int]:
    return queries.find_by_title(term, limit=MAX_MATCHES + 1)


NUMBER, TOKEN = r"[0-9]{1,18}", rf"[A-Za-z0-9_-]{{{TOKEN_CHARACTERS}}}"
NUMBERED = (
    Job,
    Grant,
    Account,
    Client,
    ApiKey,
    Entry,
    Event,
    Delivery,
    AuditEvent,
    Plan,
    Endpoint,
    AccountDeletion,
    User,
    Membership,
    Invitation,
    Export,
)
# Each condition is supported by an index, except that on the few builds.
LOOKUPS = (
    *(Lookup(NUMBER, model, by("pk")) for model in NUMBERED),
    Lookup(NUMBER, Run, by("pk"), attrgetter("job")),
    Lookup(NUMBER, Artifact, by("pk"), attrgetter("job")),
    Lookup(TOKEN, Job, by("share_token")),
    Lookup(TOKEN, Artifact, by("token"), attrgetter("job")),
    Lookup(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", Build, by("pk")),
    Lookup(r"[0-9a-f]{7,64}", Build, by("commit__startswith")),
    Lookup(r"evt_[0-9a-f]{32}", Event, by("name")),
    Lookup(r"dlv_[0-9a-f]{32}", Delivery, by("name")),
    Lookup(keys.FORMAT.pattern, ApiKey, lambda term: {"sha256": keys.hash_key(term)}),
    Lookup(r"(sk_…)?[0-9A-Za-z]{4}", ApiKey, lambda term: {"last4": term[-4:]}),
    Lookup(rf"(?!{keys.PREFIX})[A-Za-z0-9_-]{{1,64}}", Account, by("name")),
    Lookup(rf"(?!{keys.PREFIX})[\w .+-]{{1,64}}", Plan, by("name")),
    # Text that begins like a key is not sent to the database.
    Lookup(rf"(?!{keys.PREFIX})[\w.@+-]{{1,150}}", User, by("username__iexact")),
    Lookup(r"[\w.+-]{1,64}@[\w.-]{1,189}", User, by("email__iexact")),
    Lookup(rf"(?!{keys.PREFIX}|{REQUEST_ID.pattern}$)[^\0]{{2,}}", Job, lambda term: {"pk__in": _titled(term)}),
)
# A hold has the number of its job, which leads to it as long as it exists.
HOLD = Lookup(NUMBER, Hold, by("pk"))


def matches_of(term: str, *, request: HttpRequest) -> tuple[list[Match], bool]:
    """Return the objects with an identifier that the user may view, and whether there are more of a kind.

    Each lookup finds the newest objects first.
    """
    found, has_more = _find(LOOKUPS, term, request)
    return (found, has_more) if found else _find((HOLD,), term, request)


def _find(lookups: Iterable[Lookup], term: str, request: HttpRequest) -> tuple[list[Match], bool]:
    """Return the objects that lookups find, each once, and whether a lookup finds more."""
    by_lookup = [list(_run(lookup, term, request)) for lookup in lookups if re.fullmatch(lookup.pattern, term)]
    shown = (match for matches in by_lookup for match in matches[:MAX_MATCHES])
    return list(dict.fromkeys(shown)), any(len(matches) > MAX_MATCHES for matches in by_lookup)


def _run(lookup: Lookup, term: str, request: HttpRequest) -> Iterator[Match]:
    """Yield the objects that a lookup finds. Objects of other models than it shows are named with their own."""
    if not may_view(admin.site, request, lookup.model):
        return
    rows = lookup.model._default_manager.filter(**lookup.condition(term)).order_by("-pk")  # noqa: SLF001
    if lookup.model is Job:
        rows = rows.defer("summary")
    if lookup.model is ApiKey:
        rows = rows.select_related("client__account")
    for found in rows[: MAX_MATCHES + 1]:
        if url := admin_url(admin.site, request, lookup.shown(found)):
            yield Match(str(found._meta.verbose_name), _name_of(found), url)  # noqa: SLF001


def _name_of(found: Model) -> str:
    """Return the name of an object in a list of matches."""
    if isinstance(found, ApiKey):
        # The last characters of keys are not unique.
        return f"{found} of {found.client}"
    if isinstance(found, Job):
        return f"{found} {Truncator(found.title).chars(60)}"
    return str(found)


@require_http_methods(["GET", "HEAD", "POST"])
def search(request: HttpRequest) -> HttpResponse:
    """Redirect to the only object with an identifier, or list several.

    The term is in the body of the request, because that is not logged: operators paste API keys and links' tokens.
    """
    term = request.POST.get("q", "").strip()[:MAX_CHARACTERS]
    found, has_more = matches_of(term, request=request) if term else ([], False)
    if len(found) == 1:
        return redirect(found[0].url)
    context = {
        **admin.site.each_context(request),
        "title": "Search",
        "found": found,
        "most": has_more and MAX_MATCHES,
        "was_searched": bool(term),
        "hint": REQUEST_ID_HINT if REQUEST_ID.fullmatch(term) else "",
    }
    return render(request, "console/search.html", context)
