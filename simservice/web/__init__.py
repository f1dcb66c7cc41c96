"""The web server, the WSGI handler, response headers, pages outside the apps, and mail."""
