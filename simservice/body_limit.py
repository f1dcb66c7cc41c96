"""Limits on the size of a request's body. Importable before Django is set up.

A profile has at most 2 MB of UTF-8.
"""

# JSON can write each byte of a profile as six characters, such as `\u0041`: 12.6 MB, plus the other fields.
MAX_JSON_BYTES = 13 << 20
MAX_TEXT_BYTES = (2 << 20) + (64 << 10)
MAX_FORM_BYTES = 3 << 20

# The web server reads at most one byte more than the largest limit.
MAX_BODY_BYTES = MAX_JSON_BYTES
