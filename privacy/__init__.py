"""Export and deletion of the data of users and accounts (`docs/explanation/data-protection.md`)."""
