"""Login, sign-up, password reset and second factors: what the service changes in django-allauth.

The one idea: no page, response time, query or email reveals whether an email address is known. Pages look the same
for every address, and only its owner gets an email with more information. Sign-up therefore has two steps: the
address, then a password on the page of the link in the email. Without mail, sign-up is one step and rejects known
addresses.

- `adapters` connects django-allauth with the service: sign-ups, mail, rate limits, encrypted second factors.
- `backends` finds users by name or address, with the same work for known and unknown ones.
- `sign_up` and `password_reset` send and check links; `dashboard.tasks` mails them.
- `pending_invitation` keeps an invitation until the visitor is logged in.

Sessions, passwords and codes themselves are Django's and django-allauth's. The forms are in `dashboard/forms.py`.

Start with `sign_up.py`.
"""
