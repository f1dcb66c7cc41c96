"""Who pays, and with what: plans, accounts and the book of their credits."""
