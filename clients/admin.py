"""Accounts with their clients, keys and people in the admin. Keys are made where they are shown once."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from billing.admin import CreditsActions
from billing.models import Account
from clients import keys
from clients.accounts import open_account
from clients.models import ApiKey, Client, Invitation, Membership
from simservice.facts import ManyRows, ReadOnly


class MembershipInline(ReadOnly, admin.TabularInline):
    model = Membership
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).select_related("user", "account")


@admin.register(Account)
class AccountAdmin(ManyRows, CreditsActions):
    list_display = ["name", "plan", "created_at", "suspended_at"]
    list_filter = ["plan", ("suspended_at", admin.EmptyFieldListFilter)]
    list_select_related = ["plan"]
    exact_texts = ("name",)
    readonly_fields = ["created_at", "credits", "what_belongs_to_it"]
    inlines = [MembershipInline]

    @admin.display(description="what belongs to it")
    def what_belongs_to_it(self, account: Account) -> str:
        """Return links to the lists of what an account may have any number of."""
        lists = {
            "Jobs": "jobs_job",
            "Clients": "clients_client",
            "Keys": "clients_apikey",
            "Entries": "billing_entry",
        }
        links = [
            format_html('<a href="{}?q={}">{}</a>', reverse(f"admin:{name}_changelist"), account.name, label)
            for label, name in lists.items()
        ]
        return format_html(" · ".join(["{}"] * len(links)), *links)

    def save_model(self, request: HttpRequest, obj: Account, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        """Open a new account through its own door, which gives it its built-in client."""
        if change:
            super().save_model(request, obj, form, change)
        else:
            obj.pk = open_account(obj.name, plan=obj.plan).pk

    def has_delete_permission(self, request: HttpRequest, obj: Account | None = None) -> bool:
        return False


@admin.register(Client)
class ClientAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = ["name", "account", "is_default", "created_at"]
    list_filter = ["is_default"]
    list_select_related = ["account"]
    ordering = ["-pk"]
    exact_texts = ("account__name", "name")


@admin.register(ApiKey)
class ApiKeyAdmin(ManyRows, admin.ModelAdmin):
    list_display = ["__str__", "client", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), ("expires_at", admin.EmptyFieldListFilter)]
    list_select_related = ["client__account"]
    ordering = ["-pk"]
    exact_texts = ("last4", "client__account__name")
    exact_numbers = ("last4",)
    fields = ["client", "name", "last4", "created_at", "expires_at", "revoked_at", "last_used_at"]
    readonly_fields = ["client", "last4", "created_at", "revoked_at", "last_used_at"]
    actions = ["revoke"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).select_related("client__account")

    @admin.action(description="Revoke: the keys serve no more", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        chosen = [key for key in queryset if key.revoked_at is None]
        for key in chosen:
            keys.revoke(key)
            self.log_change(request, key, "Revoked")
        self.message_user(request, f"{len(chosen)} keys revoked.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False


@admin.register(Membership)
class MembershipAdmin(ManyRows, admin.ModelAdmin):
    """Operators may leave an account without an owner, and give it one again."""

    list_display = ["user", "account", "role"]
    list_filter = ["role"]
    list_select_related = ["user", "account"]
    ordering = ["-pk"]
    raw_id_fields = ["user", "account"]
    exact_texts = ("account__name", "user__email", "user__username")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["user", "account"] if obj else []


@admin.register(Invitation)
class InvitationAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = ["email", "account", "role", "invited_by", "created_at", "expires_at", "closed_at"]
    list_select_related = ["account", "invited_by"]
    ordering = ["-pk"]
    exclude = ["sha256"]
    exact_texts = ("account__name", "email")
