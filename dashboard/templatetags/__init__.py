"""Filters and tags of templates, one module per subject."""
