"""Plans and the book in the admin. Accounts are in `clients.admin`, because opening one makes its first client."""

from collections.abc import Callable

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from billing import ledger
from billing.models import Account, Entry, Grant, Hold, Plan
from simservice.facts import ManyRows, ReadOnly


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin):
    list_display = ["name", "credits_per_second", "max_active_jobs", "max_credits_per_job", "monthly_credits"]


@admin.register(Grant)
class GrantAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = ["id", "account", "reason", "remaining", "original", "created_at", "expires_at"]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Hold)
class HoldAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = ["job_id", "account", "credits", "spent", "created_at", "resolved_at"]
    list_filter = [("resolved_at", admin.EmptyFieldListFilter)]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Entry)
class EntryAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = ["id", "at", "account", "credits", "source", "target", "grant", "job_id", "reason"]
    list_filter = ["source", "target"]
    list_select_related = ["account", "grant"]
    exact_numbers = ("job_id",)
    exact_texts = ("account__name",)


class Booking(forms.Form):
    """What an operator must write for credits to be moved."""

    credits = forms.IntegerField()
    reason = forms.CharField(max_length=ledger.MAX_REASON)


class BookingFields(ActionForm):
    """The same as it stands beside the choice of an action; other actions leave it empty."""

    credits = forms.CharField(required=False, help_text="For a correction, negative to take away.")
    reason = forms.CharField(required=False)


class CreditsActions(admin.ModelAdmin):
    """The actions on accounts that move credits, each with a written reason, and an account's balances."""

    action_form = BookingFields
    actions = ["grant_credits", "correct_credits"]

    def has_book_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may move credits, which only the ledger writes."""
        return request.user.has_perm("billing.add_entry")

    @admin.display(description="available, purchased and reserved credits")
    def credits(self, account: Account) -> str:
        found = ledger.balances(account)
        return f"{found.available} available, {found.purchased} of them purchased; {found.reserved} reserved"

    @admin.action(description="Grant credits", permissions=["book"])
    def grant_credits(self, request: HttpRequest, queryset: QuerySet[Account]) -> None:
        self.book(request, queryset, lambda *booking, reason: ledger.grant(*booking, reason=reason))

    @admin.action(description="Correct the credits", permissions=["book"])
    def correct_credits(self, request: HttpRequest, queryset: QuerySet[Account]) -> None:
        self.book(request, queryset, lambda *booking, reason: ledger.correct(*booking, reason=reason))

    def book(self, request: HttpRequest, accounts: QuerySet[Account], door: Callable[..., object]) -> None:
        """Pass what the operator wrote to a door of the ledger, for each account, and tell how it went."""
        form = Booking(request.POST)
        if not form.is_valid():
            wanted = f"Write a whole number of credits and a reason of at most {ledger.MAX_REASON} characters."
            self.message_user(request, wanted, messages.ERROR)
            return
        amount, reason = form.cleaned_data["credits"], form.cleaned_data["reason"]
        for account in accounts:
            try:
                door(account, amount, reason=reason)
            except (ledger.Refused, ledger.InsufficientCredits) as error:
                self.message_user(request, f"{account}: {error}", messages.ERROR)
            else:
                self.log_change(request, account, f"{amount} credits: {reason}")
                self.message_user(request, f"{account}: {amount} credits booked.")
