"""Pages for everybody: home page, example result, API documentation, guides, and the pictures of share links.

They need no login, and show the same to everyone. Home page, example and documentation read no database: they are
rendered from files and from the OpenAPI document, so they work while PostgreSQL is down and cannot disagree with
the API. Rendered documentation is kept in memory, for few host names, because that name comes from requests.

`docs` shows one program per operation and language; tests run them. `guides` renders Markdown files of `docs/` with
the address of the deployment.

Start with `views.py`. The pictures have their own chapter, `card`.
"""
