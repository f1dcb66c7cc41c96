"""The search in the bar: it opens the object with an id or a name, or the list of jobs with a text.

An object is found by an index in at most three queries; the list has its own limits (`job_list.py`).
"""

import re
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from billing.models import Account
from clients import keys
from clients.models import ApiKey
from dashboard.access import AccountAccess, account_page
from dashboard.jobs.job_list import MAX_TEXT
from jobs.models import Job
from simservice.ids import TOKEN_CHARACTERS, IdConverter
from webhooks.models import Event

ID = re.compile(IdConverter.regex)
SHARE_TOKEN = re.compile(rf"(?:.*/share/)?([A-Za-z0-9_-]{{{TOKEN_CHARACTERS}}})/?")
EVENT_NAME = re.compile(r"evt_[0-9a-f]{32}")


@account_page()
def search(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Redirect to the object of the account that the term names, else to the jobs that contain it."""
    # PostgreSQL accepts no null characters.
    term = request.GET.get("q", "").replace("\0", "").strip()[:MAX_TEXT]
    jobs = reverse("jobs", args=[access.account.name])
    # Keys are secret, so they are neither searched for nor repeated in an address.
    if term.startswith(keys.PREFIX):
        return redirect("clients", access.account.name)
    return redirect(_address_of(access.account, term) or (f"{jobs}?{urlencode({'text': term})}" if term else jobs))


def _address_of(account: Account, term: str) -> str | None:
    """Return the address of the account's object with an id, a name or a share link, None if there is none."""
    found: dict[str, int | str | None] = {}
    if ID.fullmatch(term):
        found["job"] = Job.objects.filter(account=account, pk=term).values_list("pk", flat=True).first()
        found["client"] = account.clients.filter(pk=term).values_list("pk", flat=True).first()
        found["key"] = ApiKey.objects.filter(client__account=account, pk=term).values_list("pk", flat=True).first()
    elif EVENT_NAME.fullmatch(term):
        events = Event.objects.filter(client__account=account, name=term)
        found["event"] = events.values_list("name", flat=True).first()
    elif term:
        found["client"] = account.clients.filter(name=term).values_list("pk", flat=True).first()
        if token := SHARE_TOKEN.fullmatch(term):
            shared = Job.objects.filter(account=account, share_token=token[1])
            found["job"] = shared.values_list("pk", flat=True).first()
    addresses = (reverse(view, args=[account.name, key]) for view, key in found.items() if key is not None)
    return next(addresses, None)
