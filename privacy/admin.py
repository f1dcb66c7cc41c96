"""Admin pages of exports and of deletions of accounts."""

from functools import partial

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse

from clients import audit
from privacy import accounts
from privacy.errors import DeletionStarted
from privacy.models import AccountDeletion, Export
from simservice.admin import LargeTableMixin, ReadOnlyMixin
from simservice.admin_actions import Effect, preview


@admin.register(Export)
class ExportAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = [
        "id",
        "account",
        "user",
        "created_at",
        "attempt",
        "completed_at",
        "failed_at",
        "bytes",
        "expires_at",
    ]
    list_select_related = ["account", "user"]
    ordering = ["-pk"]
    exclude = ["storage_name"]
    exact_texts = ("account__name", "user__email")


@admin.register(AccountDeletion)
class AccountDeletionAdmin(LargeTableMixin, admin.ModelAdmin):
    """Operators add a deletion to request it, and select it to undo it or to end its grace period."""

    list_display = ["account", "requested_at", "requested_by", "due_at", "completed_at"]
    list_filter = [("completed_at", admin.EmptyFieldListFilter)]
    list_select_related = ["account"]
    ordering = ["-requested_at"]
    fields = ["account"]
    raw_id_fields = ["account"]
    exact_texts = ("account__name",)
    actions = ["undo", "finish_now"]

    def save_model(self, request: HttpRequest, obj: AccountDeletion, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        accounts.request(obj.account, by=audit.operator(request))

    def has_change_permission(self, request: HttpRequest, obj: AccountDeletion | None = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: AccountDeletion | None = None) -> bool:
        return False

    @admin.action(description="Undo selected deletions", permissions=["add"])
    def undo(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> HttpResponse | None:
        run = partial(self.undo_each, request)
        return preview(self, request, queryset, action="undo", effect_of=effect_of_undoing, run=run)

    def undo_each(self, request: HttpRequest, deletions: list[AccountDeletion]) -> None:
        """Undo deletions and show a message for each."""
        for deletion in deletions:
            try:
                accounts.undo(deletion.account, by=audit.operator(request))
            except DeletionStarted:
                self.message_user(request, f"{deletion.account}: the grace period has ended.", messages.ERROR)
            else:
                self.message_user(request, f"{deletion.account}: the deletion was undone.")

    @admin.action(description="End the grace period of selected deletions now", permissions=["add"])
    def finish_now(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> HttpResponse | None:
        run = partial(self.finish_each, request)
        return preview(self, request, queryset, action="finish_now", effect_of=effect_of_finishing, run=run)

    def finish_each(self, request: HttpRequest, deletions: list[AccountDeletion]) -> None:
        """End the grace periods of deletions and show a message for each."""
        for deletion in deletions:
            accounts.finish_now(deletion.account)
            self.message_user(request, f"{deletion.account}: the data is being deleted.")


def effect_of_undoing(deletion: AccountDeletion) -> Effect:
    """Return what undoing a deletion does."""
    if deletion.has_started:
        return Effect("the grace period has ended.", happens=False)
    return Effect("The account can be used again. Revoked keys and disabled webhooks stay as they are.")


def effect_of_finishing(deletion: AccountDeletion) -> Effect:
    """Return what ending the grace period of a deletion does."""
    if deletion.has_started:
        return Effect("the grace period has ended.", happens=False)
    return Effect("The data of the account is deleted now. This cannot be undone.")
