"""Shapes of all responses, written by hand from docs/reference/api.md as strict JSON Schema.

This package imports nothing from the service, so it finds errors that the service and its document share.
"""
