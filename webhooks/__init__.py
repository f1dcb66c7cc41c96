"""Webhooks: endpoints, events, and the attempts to deliver them.

An event is written in the transaction of the change that it reports (an outbox), with the exact bytes to send. It
is due until an attempt succeeds or the retries end. The modules follow a delivery: `events` stores it, `claims`
leases due events to a worker, `dispatcher` sends them with `http_client`, and `retries` records each outcome and
schedules the next attempt.

Promised: no event is lost if a process or Redis fails, no request reaches an address that is not public, and a slow
receiver delays only itself and other failing ones. Not promised: that an event arrives only once, or in order.
Receivers compare event ids.

This package knows only the id of a job. The rules for receivers are in
`docs/reference/webhooks.md`.

Start with `events.py`, then `dispatcher.Dispatcher`.
"""
