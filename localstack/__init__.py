"""The stack on one machine: PostgreSQL and Redis from PyPI wheels, and the Procfile's processes.

Nothing here imports Django: `manage.py local` makes the environment that Django's settings read.
"""
