"""Login, sign-up, password reset and second factors: what the service changes in django-allauth.

The one idea: nobody learns from a page, its time, its queries or its mail whether an email address is known. The
pages show the same for every address, and only its owner gets a mail that tells more. So sign-up has two steps: the
address, then a password on the page of the mailed link. Without mail, sign-up is one step and rejects known
addresses.

- `adapters` connects django-allauth with the service: sign-ups, mail, rate limits, encrypted second factors.
- `backends` finds users by name or address, with the same work for known and unknown ones.
- `sign_up` and `password_reset` send and check links; `dashboard.tasks` mails them.
- `pending_invitation` keeps an invitation until the visitor is logged in.

Sessions, passwords and codes themselves are Django's and django-allauth's. The forms are in `dashboard/forms.py`.

Start with `sign_up.py`.
"""
