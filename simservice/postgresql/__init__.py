"""A database backend whose connections notice that PostgreSQL does not respond."""
