"""Accounts with their clients, keys and members in the admin. Keys are made where they are shown once."""

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from billing.admin import CreditsActions
from billing.models import Account
from clients.accounts import open_account
from clients.models import ApiKey, Client, Membership
from simservice.facts import ReadOnly


class ClientInline(ReadOnly, admin.TabularInline):
    model = Client
    extra = 0


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0


@admin.register(Account)
class AccountAdmin(CreditsActions):
    list_display = ["name", "plan", "created_at", "suspended_at"]
    list_select_related = ["plan"]
    search_fields = ["name"]
    readonly_fields = ["created_at", "credits"]
    inlines = [ClientInline, MembershipInline]

    def save_model(self, request: HttpRequest, obj: Account, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        """Open a new account through its own door, which gives it its built-in client."""
        if change:
            super().save_model(request, obj, form, change)
        else:
            obj.pk = open_account(obj.name, plan=obj.plan).pk

    def has_delete_permission(self, request: HttpRequest, obj: Account | None = None) -> bool:
        return False


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    list_display = ["__str__", "client", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["client__account"]
    search_fields = ["=last4", "=client__account__name"]
    fields = ["client", "name", "last4", "created_at", "expires_at", "revoked_at", "last_used_at"]
    readonly_fields = ["client", "last4", "created_at", "last_used_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False
