"""Pages about jobs: list, form, one job, comparison, history, share page, and the overview of an account.

The job form is a client of the API: it builds the JSON body of a submission, and shows the API's errors next to the
fields that they concern. So a job from a form is checked, priced and stored like any other. It differs in one
point: a form token instead of an idempotency key keeps it from creating two jobs.

A page of one job reads its rows in one snapshot, so that its parts agree. Until the job ends, the page replaces
itself every two seconds; progress and preview come from Redis and can be missing at any time.

The public pages (`sharing`, and `compare_shared`) show what a share link reveals, and never the account, the client
or the metadata. `job_list` promises an answer within its statement timeout, not a search of all jobs.

Start with `job_page.py` for reading and `job_form.py` for writing.
"""
