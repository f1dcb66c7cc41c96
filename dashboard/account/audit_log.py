"""Audit log of an account, for its owners."""

import re
from collections import defaultdict
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from clients import audit
from clients.audit import Action
from clients.members import Role
from clients.models import AuditEvent
from dashboard.access import AccountAccess, account_page
from dashboard.paging import page_of

USER_ID = re.compile(r"[0-9]{0,18}")


class ActionGroup(NamedTuple):
    """A filter of the list; `targets` are the first parts of its actions."""

    name: str
    label: str
    targets: tuple[str, ...]

    @property
    def actions(self) -> list[Action]:
        return [action for action in Action if action.split(".")[0] in self.targets]


GROUPS = (
    ActionGroup("", "All", ()),
    ActionGroup("keys", "Keys", ("key",)),
    ActionGroup("webhooks", "Clients and webhooks", ("client", "webhook")),
    ActionGroup("people", "People", ("invitation", "member")),
    ActionGroup("account", "Plan and credits", ("account", "credits")),
    ActionGroup("jobs", "Jobs", ("job",)),
)
DESCRIPTIONS = {
    Action.KEY_CREATED: "Created key {target} ({name}) for client {client}",
    Action.KEY_RENAMED: "Renamed key {target} to {name}",
    Action.KEY_EXPIRY_CHANGED: "Changed the expiry of key {target} to {expires}",
    Action.KEY_REVOKED: "Revoked key {target}",
    Action.CLIENT_CREATED: "Created client {target}",
    Action.WEBHOOK_ENABLED: "Enabled the webhook of client {target} (host: {host})",
    Action.WEBHOOK_ADDRESS_CHANGED: "Changed the webhook URL of client {target} (new host: {host})",
    Action.WEBHOOK_SECRET_ROTATED: "Rotated the signing secret of client {target} (overlap: {hours} h)",
    Action.WEBHOOK_DISABLED: "Disabled the webhook of client {target}",
    Action.INVITATION_CREATED: "Invited {target} as {role}",
    Action.INVITATION_REVOKED: "Revoked the invitation to {target}",
    Action.MEMBER_JOINED: "{target} joined as {role}",
    Action.MEMBER_ROLE_CHANGED: "Changed the role of {target} from {old} to {new}",
    Action.MEMBER_REMOVED: "Removed {target}",
    Action.MEMBER_LEFT: "{target} left the account",
    Action.ACCOUNT_PLAN_CHANGED: "Changed the plan from {old} to {new}",
    Action.ACCOUNT_RENAMED: "Renamed the account from {old} to {new}",
    Action.ACCOUNT_SUSPENDED: "Suspended the account",
    Action.ACCOUNT_RESUMED: "Lifted the account's suspension",
    Action.ACCOUNT_EXPORTED: "Exported the account's data",
    Action.ACCOUNT_DELETION_REQUESTED: "Requested the deletion of the account",
    Action.ACCOUNT_DELETION_UNDONE: "Undid the deletion of the account",
    Action.ACCOUNT_GRACE_PERIOD_ENDED: "Ended the grace period of the account's deletion",
    Action.ACCOUNT_SHARING_CHANGED: "Changed profiles and logs on share links to {new}",
    Action.CREDITS_GRANTED: "Granted {credits} credits: {reason}",
    Action.CREDITS_CORRECTED: "Corrected credits by {credits}: {reason}",
    Action.JOB_CANCELLED: "Cancelled job {target}",
    Action.JOB_RENAMED: "Changed the title of job {target} to {title}",
    Action.JOB_LINKS_REPLACED: "Replaced the public links of job {target}",
    Action.JOB_REQUEUED: "Returned job {target} to the queue",
    Action.JOB_RELEASED: "Marked job {target} as lost",
}
EMPTY_DETAILS = {"name": "no name", "expires": "never", "title": "its default"}


@account_page(read=Role.OWNER)
def audit_log(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List changes, newest first."""
    groups = {group.name: group for group in GROUPS}
    about, by = request.GET.get("about", ""), request.GET.get("by", "")
    if about not in groups or not USER_ID.fullmatch(by):
        raise Http404
    group, user_id = groups[about], int(by) if by else None
    events = audit.events_of(access.account, actions=group.actions, user_id=user_id)
    page = page_of(request, events, account_id=access.account.pk)
    context = {
        "section": "audit",
        "page": page,
        "rows": [{"event": event, "description": description(event)} for event in page.rows],
        "group": group,
        "groups": [
            (each, urlencode({name: value for name, value in (("about", each.name), ("by", by)) if value}))
            for each in GROUPS
        ],
        "user_id": user_id,
    }
    return render(request, "dashboard/audit.html", context)


def description(event: AuditEvent) -> SafeString:
    """Return the description of an event as HTML. Names cannot change the direction of the text around them."""
    values = {name: value or EMPTY_DETAILS.get(name, value) for name, value in event.details.items()}
    isolated: defaultdict[str, object] = defaultdict(lambda: "?")
    for name, value in {"target": event.target, **values}.items():
        isolated[name] = format_html("<bdi>{}</bdi>", value)
    text = mark_safe(DESCRIPTIONS[Action(event.action)].format_map(isolated))  # noqa: S308 - all values are escaped
    if event.action == Action.ACCOUNT_SUSPENDED and event.details.get("reason"):
        text += format_html(": {}", isolated["reason"])
    if keys := event.details.get("keys"):
        text += format_html(", and with it what {} API key{} can do", keys, pluralize(keys))
    return text
