"""What readers see of jobs: lists, details, rankings, comparisons, histories, and the words for all of it.

The API reads jobs only through this package, and so do most pages, so that both apply the same rules: an account
sees its own jobs, and nobody sees the files, links or details of a job after its retention period.

- `queries` finds single jobs, artifacts and builds; `listing` finds pages of jobs.
- `details` and `rankings` store parts of a report; both are written once, when the job ends.
- `verdicts` decides which variants of a job are clearly better, and words it for pages, the API and files.
- `comparison` and `history` put several jobs side by side.
- `labels` has the texts for people.
- `edits` has the two changes that members can make to a job: its title and its public links.

Nothing here changes the status of a job or uses HTTP. Start with `queries`.
"""
