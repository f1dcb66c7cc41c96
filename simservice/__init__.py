"""The foundation of all apps: settings, the Celery application, the web server, and connections to other systems.

No module here knows a job, an account or a webhook; every app may import this package.

- `settings` reads the environment through `environment`, and reports all wrong values at once.
- `web/` serves requests, `api/` has the common parts of the HTTP API, and `admin/` those of the admin pages.
- `celery` and `beat` start tasks. Messages may be lost or repeated: what must happen is in PostgreSQL.
- `postgresql/`, `redis/` and `storages/` are the connections. PostgreSQL is the source of truth; Redis contains
  only what may be lost.
- `network/` decides which addresses on the internet the service connects to.
- `telemetry/` is logs, metrics, traces and errors; `operations/` is the commands and the checks of a deployment.
- `clocks`, `encryption`, `ids`, `outages`, `shutdown` and `worker_heartbeats` are small helpers.

Start with `settings` and `urls`.
"""
