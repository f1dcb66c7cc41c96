"""Shards: the parts of a stage that several slots run at the same time."""
