"""Which host names and IP addresses are public, for requests to addresses that users choose.

`addresses.parse` checks the form of a URL, `name_resolution` resolves its host within a time limit, and
`addresses.require_public` checks every address that was found. The caller then connects to one of these addresses,
not to the name, so a second answer of the resolver changes nothing.

Only addresses of the public internet are allowed: `special_ranges` lists those that are not. Nothing here makes a
request. Start with `addresses.py`.
"""
