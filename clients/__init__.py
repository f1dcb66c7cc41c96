"""Clients of an account with their API keys, the members of the account, and its audit log."""
