"""Limits that the web server needs before Django has its settings."""

MAX_BODY_BYTES = 3 * 1024 * 1024
