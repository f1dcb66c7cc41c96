"""The pages for people: rendered on the server from `templates/`. They work without scripts.

A page is a view that calls the domain (`jobs`, `clients`, `billing`, `webhooks`, `privacy`) and renders a template.
The chapters follow what a visitor wants: `jobs`, `results`, `account`, `login`, `public`, and `console` for
operators. No rule about jobs or credits is defined here: the API and the pages call the same functions.

Pages promise:
- `access.account_page` alone decides who may open a page of an account. Strangers get 404, low roles get 403.
- A form that creates something creates it once, even if it is sent twice (`clients.form_tokens`).
- Names, reports and profiles are untrusted. Templates escape them; no page trusts their size or their numbers.
- The queries of a page do not grow with the rows of its account.

They do not promise stable HTML: programs use the API.

Start with `urls.py`, then `access.py`, then the view of one page, such as `jobs/job_page.py`.
"""
