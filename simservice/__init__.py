"""What every app needs and no app owns: settings, URLs, Celery, and the parts below.

- `web` is the web server and everything around a response; `api` is the HTTP API apart from its resources.
- `admin` has shared parts of admin pages; `operations` has the checks and commands for operators.
- `postgresql`, `redis` and `storages` connect to the servers; `network` decides which addresses are public.
- `telemetry` has logs, metrics, traces and error reports.

The single modules are the settings (`settings`, read with `environment`), encryption, ids, clocks, heartbeats of
workers, outages and shutdown.

Nothing here imports an app, so nothing here knows jobs, accounts or credits; `urls` and the settings name the apps
as text. A helper that only one app uses belongs to that app.

Start with `settings.py`, then `urls.py` and `celery.py`.
"""
