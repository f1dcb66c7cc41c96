"""Parts that the admin pages of all apps share.

The admin is a console for operators. Facts are read-only (`base.ReadOnlyMixin`), and an action shows its effects
before it calls a function of the domain (`actions`). A form fails if somebody else changed the object since it was
opened (`forms`), and pages stay fast on large tables (`base.LargeTableMixin`).

`access` requires two-factor authentication, and `filters` rejects query strings that no page links to. Who may do
what is left to Django's permissions. Start with `base.py`.
"""
