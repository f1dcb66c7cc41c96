"""Tests, one folder per app, beside the ones that cross them."""
