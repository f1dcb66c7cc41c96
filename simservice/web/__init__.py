"""The web server, the WSGI handler, the content security policy and mail."""
