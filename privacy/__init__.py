"""Export and deletion of the data of users and accounts (`docs/data-protection.md`)."""
