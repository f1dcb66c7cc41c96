"""Shared parts of the HTTP API: errors, parsing, pagination, request ids and the OpenAPI document."""
