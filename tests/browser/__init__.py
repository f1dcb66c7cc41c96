"""Tests of the pages in headless Chromium, against the whole stack."""
