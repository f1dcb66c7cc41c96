"""HTTP API of jobs: one module per resource, with its response shape, renderer, documentation and view."""
