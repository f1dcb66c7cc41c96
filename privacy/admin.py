"""Admin pages of exports and of deletions of accounts."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from clients import audit
from privacy import accounts
from privacy.errors import DeletionStarted
from privacy.models import AccountDeletion, Export
from simservice.admin import LargeTableMixin, ReadOnlyMixin


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
    def undo(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> None:
        for deletion in queryset:
            try:
                accounts.undo(deletion.account, by=audit.operator(request))
            except DeletionStarted:
                self.message_user(request, f"{deletion.account}: the grace period has ended.", messages.ERROR)
            else:
                self.message_user(request, f"{deletion.account}: the deletion was undone.")

    @admin.action(description="End the grace period of selected deletions now", permissions=["add"])
    def finish_now(self, request: HttpRequest, queryset: QuerySet[AccountDeletion]) -> None:
        for deletion in queryset:
            accounts.finish_now(deletion.account)
            self.message_user(request, f"{deletion.account}: the data is being deleted.")
