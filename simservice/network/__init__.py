"""The rules for addresses that others choose: public host names and IP addresses only.

Webhooks and the proxy for the game API connect to hosts that users or profiles name. `public_names` checks a name
without looking it up. `addresses` checks a URL, resolves its host within a time limit, and refuses every address
that is private, reserved or special. The caller must connect to an address that was checked, not resolve the name
again, because the answer can change in between.

Only `WEBHOOK_ALLOWED_ADDRESSES` exempts a host from the rules. Start with `parse` and `resolve` in `addresses`.
"""
