"""Who calls: an account's clients, their API keys, and the people who may see the account."""
