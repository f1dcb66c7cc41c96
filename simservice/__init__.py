"""Settings, URLs, the Celery application and helpers that every app can use."""
