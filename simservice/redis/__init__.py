"""Redis: the client, Django's cache, and counters that all processes share.

Redis contains only what may be lost: progress, heartbeats, rate limits, caches and counters. It is used in two
ways:

- `client.best_effort` returns a default while Redis is unavailable. During an outage, one thread probes about once
  a second, and all other calls return at once.
- `client.redis()` raises RedisError, for callers that have to know, such as health checks.

Nothing in this package waits longer than `client.TIMEOUT_SECONDS` for a response. Start with `client`.
"""
