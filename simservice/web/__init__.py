"""The web server, and what all responses have in common.

The one idea: threads are few, because each has a database connection. So a thread handles a request only after it
has been received completely (`connections`, `gunicorn_worker`), and a request that waits for a change gives its
thread back (`waiting`). `docs/explanation/decisions/own-web-worker.md` gives the reasons.

The other modules are about responses: headers (`csp`, `caching`), limits (`large_responses`), redirects
(`trailing_slashes`), error pages and health endpoints. `mail` lets workers send what a request enqueued.

Nothing here knows a page or a resource. Start with `gunicorn_worker.py`, then `waiting.py`.
"""
