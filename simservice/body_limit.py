"""How large a request may be: for the parsers, and for the web server, which reads it before Django is set up."""

MAX_BODY_BYTES = 3 * 1024 * 1024
