"""Pages about an account: clients and keys, webhooks, people, credits, the audit log, data; and a user's own pages.

Each view checks a form, calls one function of `clients`, `webhooks`, `billing` or `privacy`, and says what
happened. These functions decide, lock and write the audit log; a view only turns their errors into messages.

Secrets (keys, signing secrets, invitation links) are in the response that creates them, and on no other page. If
that form is sent twice, the second response explains that the secret was already shown. Deletions ask for the name
of what is deleted and for a recent login.

`people.invitation` is the only page here that visitors can open. `export_and_delete` and `profile` also have pages
of a user, which belong to no account.

Start with `clients.py`.
"""
