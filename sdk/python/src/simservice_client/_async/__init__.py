"""Asynchronous clients, the source of the synchronous ones in `_sync`."""
