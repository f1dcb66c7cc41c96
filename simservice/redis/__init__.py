"""Redis: the client, the cache and the heartbeats of workers."""
