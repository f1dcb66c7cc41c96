"""Errors of the rules for credits."""


class InsufficientCredits(Exception):
    """The account has fewer available credits than the change requires."""

    def __init__(self, *, required_credits: int, available_credits: int) -> None:
        super().__init__(f"Only {available_credits} credits are available.")
        self.required_credits = required_credits
        self.available_credits = available_credits


class InvalidCreditChange(ValueError):
    """The amount, reason, note or expiry of a change is invalid; the message is a sentence for the user."""


class HoldError(Exception):
    """The job has no open hold, or its hold is too small. This is a bug in the caller, not a race."""
