"""Logs, metrics, traces and error reports.

- `logs` writes lines as JSON, with the ids of the request, attempt or event.
- `metrics` exports numbers for Prometheus.
- `tracing` records spans, and `sentry` reports errors. Both do nothing unless a setting turns them on.
- `causes` explains known errors of a deployment in one line, with what to do.

Promised: telemetry never fails a request or a job, and spans and reports contain no text that a user wrote. Not
promised: that everything arrives. Repeated lines, spans and reports may be dropped.

Start with `logs.py`. `docs/how-to/observe.md` describes what operators see.
"""
