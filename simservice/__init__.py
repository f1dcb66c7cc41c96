"""The project: settings, URLs, the Celery application and the helpers every app may use."""
