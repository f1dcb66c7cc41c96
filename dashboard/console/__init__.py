"""The operators' console: pages of the admin that concern more than one model.

`overview` shows the state of the service at a glance, `search` finds an object by any of its identifiers. Both show
what the user's permissions on the models allow, and change nothing: actions belong to the admin pages of each
model, which call the domain. Only `capacity` has changes of its own, because lanes and machines are not models.

Pages stay fast on a full database: counts stop at a limit, and every lookup of the search uses an index. If Redis
does not respond, the overview says so and shows the rest. Search terms are in the body of a request, and are not
logged.

Start with `overview.py`.
"""
