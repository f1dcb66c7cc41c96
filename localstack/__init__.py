"""PostgreSQL, Redis and all processes of the service on one machine, for development and tests.

Nothing here imports Django, because `manage.py local` creates the environment that Django's settings read.
"""
