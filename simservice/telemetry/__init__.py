"""What the service reports about itself: logs, metrics, traces and errors.

`logs` writes lines with the ids of their request, attempt or event. `metrics` are those of one process; counters
that survive it are in `simservice/redis/shared_metrics.py`. `tracing` records spans if a collector is configured,
and otherwise does not even import OpenTelemetry. `sentry` sends errors if a project is configured. `known_errors`
explains what is wrong with the deployment, and what to do about it, in one line.

No secrets or texts of users leave the service this way: log fields are a fixed list, spans contain only ids,
numbers and constants, and Sentry gets neither messages of exceptions nor variables.

For operators: `docs/how-to/observe.md`. Start with `logs`.
"""
