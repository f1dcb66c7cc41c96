"""Admin pages of exports and of deletions of accounts, and the action that requests a deletion."""

from functools import partial

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from billing.models import Account
from clients import audit
from clients.admin import AccountAdmin
from privacy import accounts
from privacy.accounts import InUse
from privacy.errors import DeletionStarted
from privacy.models import AccountDeletion, Export
from simservice.admin.actions import MAX_SELECTED, Effect, preview
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin


@admin.register(Export)
class ExportAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = (
        "id",
        "account",
        "user",
        "created_at",
        "attempt",
        "completed_at",
        "failed_at",
        "bytes",
        "expires_at",
    )
    list_select_related = ["account", "user"]
    ordering = ["-pk"]
    exclude = ["storage_name"]
    exact_texts = ("account__name", "user__email__iexact")


admin.site.unregister(Account)


@admin.register(Account)
class DeletableAccountAdmin(AccountAdmin):
    """The pages of accounts with an action that requests their deletion."""

    actions = [*AccountAdmin.actions, "request_deletion"]

    def has_request_deletion_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("privacy.add_accountdeletion")

    @admin.action(description="Request deletion of selected accounts", permissions=["request_deletion"])
    def request_deletion(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        in_use = accounts.in_use(queryset[: MAX_SELECTED + 1])
        return preview(
            self,
            request,
            queryset.select_related("deletion"),
            action="request_deletion",
            effect_of=partial(effect_of_requesting, in_use),
            run=partial(self.request_each, request),
        )

    def request_each(self, request: HttpRequest, chosen: list[Account]) -> None:
        for account in chosen:
            deletion = accounts.request(account, by=audit.operator(request))
            self.log_change(request, account, "Deletion requested")
            until = f"{deletion.due_at:%Y-%m-%d %H:%M} UTC"
            self.message_user(request, f"{account}: the data is deleted on {until}. You can undo this until then.")


def effect_of_requesting(in_use: dict[int, InUse], account: Account) -> Effect:
    """Return what requesting the deletion of an account does, given what the accounts use."""
    if hasattr(account, "deletion"):
        return Effect("its deletion was already requested.", happens=False)
    keys, endpoints, jobs = in_use[account.pk]
    return Effect(
        "The account is suspended. Its keys are revoked, its webhooks disabled and its jobs cancelled for good. "
        f"Its data is deleted after {accounts.GRACE.days} days.",
        shown=f"Active keys: {keys:,}. Enabled webhooks: {endpoints:,}. Unfinished jobs: {jobs:,}.",
    )


@admin.register(AccountDeletion)
class AccountDeletionAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    """Deletions, with actions that undo them or end their grace period."""

    list_display = ["account", "requested_at", "requested_by", "due_at", "completed_at"]
    list_filter = [("completed_at", admin.EmptyFieldListFilter)]
    list_select_related = ["account"]
    ordering = ["-requested_at"]
    exact_texts = ("account__name",)
    actions = ["undo", "finish_now"]

    def has_undo_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("privacy.add_accountdeletion")

    def has_finish_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("privacy.end_grace_period")

    @admin.action(description="Undo selected deletions", permissions=["undo"])
    def undo(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> HttpResponse | None:
        effect = "The account can be used again. Revoked keys and disabled webhooks stay as they are."
        run = partial(self.undo_each, request)
        return preview(self, request, queryset, action="undo", effect_of=partial(effect_of, effect), run=run)

    def undo_each(self, request: HttpRequest, deletions: list[AccountDeletion]) -> None:
        for deletion in deletions:
            try:
                undone = accounts.undo(deletion.account, by=audit.operator(request))
            except DeletionStarted:
                self.message_user(request, f"{deletion.account}: the grace period has ended.", messages.ERROR)
                continue
            self._report(request, deletion, done=undone, result="the deletion was undone.")

    @admin.action(description="End the grace period of selected deletions now", permissions=["finish"])
    def finish_now(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> HttpResponse | None:
        effect = "The data of the account is deleted now. This cannot be undone."
        run = partial(self.finish_each, request)
        return preview(self, request, queryset, action="finish_now", effect_of=partial(effect_of, effect), run=run)

    def finish_each(self, request: HttpRequest, deletions: list[AccountDeletion]) -> None:
        for deletion in deletions:
            done = accounts.finish_now(deletion.account, by=audit.operator(request))
            self._report(request, deletion, done=done, result="the grace period was ended.")

    def _report(self, request: HttpRequest, deletion: AccountDeletion, *, done: bool, result: str) -> None:
        """Log and show what was done to a deletion, or show that someone else undid or finished it."""
        if done:
            self.log_change(request, deletion.account, result.capitalize())
            self.message_user(request, f"{deletion.account}: {result}")
        else:
            message = f"{deletion.account}: nothing was done, because someone else undid or finished the deletion."
            self.message_user(request, message, messages.WARNING)


def effect_of(text: str, deletion: AccountDeletion) -> Effect:
    """Return what an action does to a deletion, unless the grace period has ended."""
    return Effect("the grace period has ended.", happens=False) if deletion.has_started else Effect(text)
