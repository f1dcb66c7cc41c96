"""The web server, the WSGI handler, response headers and pages outside the apps."""
