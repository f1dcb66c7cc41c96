"""The HTTP API of jobs: `/v1/{resource}/…`, public downloads and manifests, and the document of the webhook.

One module per resource. Each contains, in this order, the shapes of its JSON (TypedDicts), an example, the
`Operation` that documents it, and the view. A view reads the request, calls the domain, and builds the JSON; it
decides nothing about jobs. `docs/openapi.json` is generated from the shapes, the examples and the operations, and
mypy checks that a view returns its shape.

It promises that a published field keeps its name and type, and that every error has a code of
`docs/reference/errors.md#codes`. It does not store or change anything itself.

Start with `urls`, then read `submission_request` and `submission` (a request becomes a job) or `jobs` (a job
becomes JSON). `base` has what all views share, and `errors` has the table that turns errors of the domain into HTTP
errors.
"""
