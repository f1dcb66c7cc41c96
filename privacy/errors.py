"""Errors of exports and deletions."""

from collections.abc import Sequence


class ExportPending(Exception):
    """An earlier export is not finished yet."""


class OnlyOwner(Exception):
    """The user is the only owner of accounts, which must be deleted or handed over first."""

    def __init__(self, accounts: Sequence[str]) -> None:
        super().__init__(f"The user is the only owner of: {', '.join(accounts)}.")
        self.accounts = accounts


class StaffUser(Exception):
    """Staff cannot delete themselves, because the admin's history of their actions would be deleted too."""


class DeletionStarted(Exception):
    """The grace period has ended, so the deletion cannot be undone."""
