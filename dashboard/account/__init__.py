"""Pages about the account: clients, people, webhooks, credits, data."""
