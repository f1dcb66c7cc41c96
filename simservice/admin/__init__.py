"""The base of all admin pages.

Four rules apply to every page: it requires two-factor authentication (`access`), no click reads a whole large table
(`base.LargeTableMixin`), an action on several objects first shows its effects and runs once (`actions`), and a form
is refused if its object has changed since it was opened (`forms`). `filters` makes hand-written query strings with
unusable values harmless.

The pages themselves are in the `admin` module of each app. Start with `base`.
"""
