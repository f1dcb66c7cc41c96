"""Redis: the client, Django's cache, and the metrics that all processes share.

Redis contains only what may be lost. `client.best_effort` returns a default while Redis does not respond, and only
one thread probes it meanwhile, so requests do not each wait for a timeout. The cache is then empty, and metrics are
added later.

Nothing here may decide about a job or a credit. Celery has its own connection. Start with `client.py`.
"""
