"""Plans, accounts and the ledger of their credits."""
