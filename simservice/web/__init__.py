"""The web server, from the socket to Django, and what applies to every response.

The server is gunicorn with its own worker. A connection costs a file descriptor until its request has arrived
completely; only then does a thread handle it (`connections`). A long-polling request gives its thread back while
it waits for a change (`waiting`). Slow clients, and clients that never finish, therefore occupy no thread.

The worker rejects malformed requests itself, with the same error envelope as the API. Everything else passes the
middleware that `settings.MIDDLEWARE` lists: `middleware`, `error_pages`, `large_responses`, and those of other
packages. `health` answers probes and Prometheus.

Under another WSGI server, the service works without long polling and without these time limits.

Start with `gunicorn_worker`.
"""
