"""Admin pages for accounts, clients, keys, users and the audit log. Keys are created on the dashboard."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from billing import ledger
from billing.errors import InsufficientCredits, InvalidCreditChange
from billing.models import Account, GrantReason
from clients import accounts, audit, form_tokens, keys, members
from clients.accounts import open_account
from clients.audit import Action
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.models import ApiKey, AuditEvent, Client, Invitation, Membership
from simservice.admin.actions import MAX_SELECTED, Effect, ask, counted, preview
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin
from simservice.admin.forms import OPENED, FreshFormMixin

# The purpose of tokens in previews
BOOKING = "booking"


class CorrectionForm(forms.Form):
    """Form for correcting credits."""

    credits = forms.IntegerField(help_text="A whole number. Enter a negative number to remove credits.")
    note = forms.CharField(max_length=ledger.MAX_REASON_CHARACTERS, help_text="Shown to members of the account.")

    def clean_credits(self) -> int:
        amount: int = self.cleaned_data["credits"]
        try:
            ledger.require_amount(self.size_of(amount))
        except InvalidCreditChange as error:
            raise forms.ValidationError(str(error), code="range") from error
        return amount

    def size_of(self, amount: int) -> int:
        """Return the number of credits that are added or removed."""
        return abs(amount)


class GrantForm(CorrectionForm):
    """Form for granting credits."""

    reason = forms.TypedChoiceField(choices=[("", "Choose a reason"), *GrantReason.choices], coerce=GrantReason)
    field_order = ("credits", "reason", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["credits"].help_text = "A whole number above 0."

    def size_of(self, amount: int) -> int:
        return amount


class SuspensionForm(forms.Form):
    """Form for suspending accounts."""

    suspension_reason = forms.CharField(
        label="Reason",
        max_length=ledger.MAX_REASON_CHARACTERS,
        help_text="Recorded in the account's audit log, which its owners can read.",
    )


class CreditsActions(admin.ModelAdmin):
    """Actions that grant and correct credits with a note, and the balances of an account."""

    actions = ["grant_credits", "correct_credits"]

    def has_book_permission(self, request: HttpRequest) -> bool:
        """Return whether the user can change credits."""
        return request.user.has_perm("billing.add_entry")

    @admin.display(description="credits")
    def credits(self, account: Account) -> str:
        balances = ledger.balances(account)
        available = f"{balances.available:,} available (including {balances.purchased:,} purchased)"
        return f"{available}, {balances.reserved:,} reserved"

    @admin.action(description="Grant credits to selected accounts", permissions=["book"])
    def grant_credits(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        return self._book(request, queryset, accounts.grant_credits, GrantForm, action="grant_credits")

    @admin.action(description="Adjust credits of selected accounts", permissions=["book"])
    def correct_credits(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        return self._book(request, queryset, accounts.correct_credits, CorrectionForm, action="correct_credits")

    def _book(
        self,
        request: HttpRequest,
        chosen: QuerySet[Account],
        change: Callable[..., object],
        form_class: type[CorrectionForm],
        *,
        action: str,
    ) -> HttpResponse | None:
        """Ask for the credits, or show what the operator's input does to the accounts or what is wrong with it."""
        if not request.POST.keys() & form_class.base_fields:
            return ask(self, request, chosen, action=action, form=form_class())
        form = form_class(request.POST)
        if not form.is_valid():
            self.message_user(request, _problem_of(form), messages.ERROR)
            return ask(self, request, chosen, action=action, form=form)
        available = ledger.available_of(chosen[: MAX_SELECTED + 1])
        effect_of = partial(effect_of_booking, form.cleaned_data["credits"], available)
        run = partial(self.book_once, request, change, form.cleaned_data)
        hidden = {name: request.POST.get(name, "") for name in form.base_fields}
        hidden["form"] = form_tokens.issue(cast(User, request.user).pk, BOOKING)
        return preview(self, request, chosen, action=action, effect_of=effect_of, run=run, hidden=hidden)

    def book_once(
        self, request: HttpRequest, change: Callable[..., object], fields: dict[str, Any], chosen: list[Account]
    ) -> None:
        """Change the credits of all accounts in one transaction, once for each preview."""
        try:
            with transaction.atomic():
                form_tokens.use(request.POST.get("form", ""), cast(User, request.user).pk, BOOKING)
                self.book_each(request, change, fields, chosen)
        except FormAlreadySent:
            self.message_user(request, "This preview was already confirmed. The credits were changed only once.")
        except InvalidFormToken:
            self.message_user(request, "The preview has expired. Choose the action again.", messages.ERROR)

    def book_each(
        self, request: HttpRequest, change: Callable[..., object], fields: dict[str, Any], chosen: list[Account]
    ) -> None:
        """Call `change` for each account and show the results."""
        amount, note = fields["credits"], fields["note"]
        others = {name: value for name, value in fields.items() if name != "credits"}
        for account in chosen:
            try:
                change(account, amount, **others, by=audit.operator(request))
            except (InvalidCreditChange, InsufficientCredits) as error:
                self.message_user(request, f"{account}: {error}", messages.ERROR)
            else:
                self.log_change(request, account, f"{amount} credits: {note}")
                self.message_user(request, f"{account}: balance changed by {amount:,} credits.")


def _problem_of(form: CorrectionForm) -> str:
    if form.has_error("credits", code="range"):
        return str(form.errors["credits"][0])
    message = f"Enter a whole number of credits and a note of at most {ledger.MAX_REASON_CHARACTERS} characters."
    return f"{message} Choose a reason." if "reason" in form.errors else message


def effect_of_booking(amount: int, available: dict[int, int], account: Account) -> Effect:
    """Return what a grant or a correction does to an account, given the available credits by account."""
    before = available.get(account.pk, 0)
    if before + amount < 0:
        return Effect("the account has too few credits.", happens=False, shown=f"Available: {before:,}.")
    return Effect(f"{amount:+,} credits.", shown=f"Available: {before:,} → {before + amount:,}.")


@admin.register(Account)
class AccountAdmin(FreshFormMixin, LargeTableMixin, CreditsActions):
    """Accounts. Their suspension is an action with a reason, not a field."""

    list_display = ["name", "plan", "created_at", "suspended_at"]
    list_filter = ["plan", ("suspended_at", admin.EmptyFieldListFilter)]
    list_select_related = ["plan"]
    exact_texts = ("name",)
    readonly_fields = ["created_at", "suspended_at", "credits", "related_lists"]
    actions = [*CreditsActions.actions, "suspend", "resume"]

    def get_fields(self, request: HttpRequest, obj: Account | None = None) -> Any:
        """Return the fields of the form. A new account is never suspended."""
        fields = super().get_fields(request, obj)
        return fields if obj else [name for name in fields if name != "suspended_at"]

    @admin.display(description="related lists")
    def related_lists(self, account: Account) -> str:
        """Return links to the lists of objects of the account."""
        lists = {
            "Jobs": "jobs_job",
            "Members": "clients_membership",
            "Clients": "clients_client",
            "Keys": "clients_apikey",
            "Entries": "billing_entry",
            "Audit log": "clients_auditevent",
        }
        links = [
            format_html('<a href="{}?q={}">{}</a>', reverse(f"admin:{name}_changelist"), account.name, label)
            for label, name in lists.items()
        ]
        return format_html(" · ".join(["{}"] * len(links)), *links)

    @admin.action(description="Suspend selected accounts (they cannot submit jobs)", permissions=["change"])
    def suspend(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        form = SuspensionForm(request.POST if "suspension_reason" in request.POST else None)
        if not form.is_valid():
            return ask(self, request, queryset, action="suspend", form=form)
        reason = form.cleaned_data["suspension_reason"]
        run = partial(self.each, request, partial(accounts.suspend, reason=reason), done=f"Suspended: {reason}")
        hidden = {"suspension_reason": reason}
        return preview(
            self, request, queryset, action="suspend", effect_of=effect_of_suspending, run=run, hidden=hidden
        )

    @admin.action(description="Resume selected accounts (end their suspension)", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        run = partial(self.each, request, accounts.resume, done="Resumed")
        return preview(self, request, queryset, action="resume", effect_of=effect_of_resuming, run=run)

    def each(self, request: HttpRequest, change: Callable[..., bool], chosen: list[Account], *, done: str) -> None:
        """Change each account, log the changed ones and show a message."""
        changed = [account for account in chosen if change(account, by=audit.operator(request))]
        for account in changed:
            self.log_change(request, account, done)
        self.message_user(request, f"{counted(len(changed), self)} {done.partition(':')[0].lower()}.")

    def save_model(self, request: HttpRequest, obj: Account, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        """Create a new account with `open_account`, which also creates its built-in client."""
        if change:
            accounts.save_changes(obj, by=audit.operator(request))
        else:
            obj.pk = open_account(obj.name, plan=obj.plan).pk

    def has_delete_permission(self, request: HttpRequest, obj: Account | None = None) -> bool:
        return False


def effect_of_suspending(account: Account) -> Effect:
    """Return what suspending does to an account."""
    if account.suspended_at is not None:
        return Effect("it is suspended.", happens=False)
    return Effect("It cannot submit jobs and gets no monthly credits. Its unfinished jobs continue.")


def effect_of_resuming(account: Account) -> Effect:
    """Return what resuming does to an account."""
    if account.suspended_at is None:
        return Effect("it is not suspended.", happens=False)
    return Effect("It can submit jobs again.")


@admin.register(Client)
class ClientAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["name", "account", "is_default", "created_at"]
    list_filter = ["is_default"]
    list_select_related = ["account"]
    ordering = ["-pk"]
    exact_texts = ("account__name",)


@admin.register(ApiKey)
class ApiKeyAdmin(FreshFormMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = [
        "__str__",
        "client",
        "name",
        "scope",
        "created_by",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    ]
    list_filter = ["scope", ("revoked_at", admin.EmptyFieldListFilter), ("expires_at", admin.EmptyFieldListFilter)]
    list_select_related = ["client__account", "created_by"]
    ordering = ["-pk"]
    exact_texts = ("last4", "client__account__name", "created_by__email__iexact")
    fields = [
        "client",
        "name",
        "last4",
        "scope",
        "addresses",
        "created_by",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
        OPENED,
    ]
    readonly_fields = [
        "client",
        "last4",
        "scope",
        "addresses",
        "created_by",
        "created_at",
        "revoked_at",
        "last_used_at",
    ]
    actions = ["revoke"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).select_related("client__account")

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        """Save the editable fields: the name and the expiry."""
        if "name" in form.changed_data:
            keys.rename(obj, obj.name, by=audit.operator(request))
        if "expires_at" in form.changed_data:
            keys.expire(obj, obj.expires_at, by=audit.operator(request))

    @admin.action(description="Revoke selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        run = partial(self.revoke_each, request)
        return preview(self, request, queryset, action="revoke", effect_of=effect_of_revoking, run=run)

    def revoke_each(self, request: HttpRequest, chosen: list[ApiKey]) -> None:
        """Revoke keys, log them and show a message."""
        for key in chosen:
            keys.revoke(key, by=audit.operator(request))
            self.log_change(request, key, "Revoked")
        self.message_user(request, f"{len(chosen)} key{'' if len(chosen) == 1 else 's'} revoked.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False


def effect_of_revoking(key: ApiKey) -> Effect:
    """Return what revoking does to a key, loaded with its client and account."""
    if key.revoked_at is not None:
        return Effect("it was already revoked.", happens=False)
    return Effect(f"Requests of {key.client} with this key are refused from now on. This cannot be undone.")


@admin.register(Membership)
class MembershipAdmin(LargeTableMixin, admin.ModelAdmin):
    """Operators can remove the last owner of an account and add a new one."""

    # Memberships are deleted one by one.
    actions = None
    list_display = ["user", "account", "role"]
    list_filter = ["role"]
    list_select_related = ["user", "account"]
    ordering = ["-pk"]
    raw_id_fields = ["user", "account"]
    exact_texts = ("account__name", "user__email__iexact", "user__username__iexact")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["user", "account"] if obj else []

    def save_model(self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool) -> None:  # noqa: FBT001
        super().save_model(request, obj, form, change)
        by = audit.operator(request)
        if not change:
            members.record_change(Action.MEMBER_JOINED, obj, by=by, role=obj.role)
        elif "role" in form.changed_data:
            members.record_change(Action.MEMBER_ROLE_CHANGED, obj, by=by, old=form.initial["role"], new=obj.role)

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        members.record_change(Action.MEMBER_REMOVED, obj, by=audit.operator(request))
        super().delete_model(request, obj)


admin.site.unregister(User)


@admin.register(User)
class UndeletableUserAdmin(UserAdmin):
    """Users without deletion: `manage.py deleteuser` also ends their memberships and deletes their exports."""

    # The framework's widgets for these have fields without labels.
    filter_horizontal = ()
    readonly_fields = ["last_login", "date_joined"]

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["email", "account", "role", "invited_by", "created_at", "expires_at", "closed_at"]
    list_select_related = ["account", "invited_by"]
    ordering = ["-pk"]
    exclude = ["sha256"]
    exact_texts = ("account__name",)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["at", "account", "action", "target", "actor", "address", "details"]
    list_select_related = ["account"]
    ordering = ["-pk"]
    exact_texts = ("account__name",)
