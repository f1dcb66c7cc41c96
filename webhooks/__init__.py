"""Webhooks: the end of a job, delivered to the URL of its client.

An event is written in the transaction that ends its job (an outbox), so a job never ends without the event that it
requested. The states of an event are:

- waiting: its attempt is due at `next_attempt_at`, at first immediately
- sending: a worker makes the request and has a lease; if the worker dies, the sweep makes the event wait again
- delivered: the receiver answered with a 2xx status
- failed: the receiver rejected it, all attempts failed, or the endpoint is disabled; it can be resent

Each attempt is a delivery, recorded before its request is made. Delivery is at least once: a receiver can get an
event twice, or events out of order, and recognizes them by their ids. A receiver that hangs delays its own client's
events only. Requests go only to public addresses that were checked just before (`simservice/network/`), over TLS,
and follow no redirect. An endpoint is disabled after five days in which every delivery failed.

Start with `models`, then follow an event through `events`, `claims`, `dispatcher`, `http_client` and `retries`.
"""
