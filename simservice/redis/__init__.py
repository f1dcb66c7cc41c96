"""Redis: the client, Django's cache and the heartbeats of workers."""
