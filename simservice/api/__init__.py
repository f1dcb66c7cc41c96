"""The parts of the HTTP API that do not know jobs: errors, validation, parsers, pagination, OpenAPI.

The API is strict: a request with an unknown field or parameter, another type, or a repeated key is refused, and
every error has the same envelope with a stable code (`errors`). `exception_handler` turns any exception into that
envelope.

The OpenAPI document is generated from what the code uses: an `Operation` on each view (`operations`), shapes of
JSON (`simservice/shapes.py`, `jsonschema`) and serializers of requests (`fields`). drf-spectacular lists the
endpoints and describes the serializers; `openapi` adds what it cannot express.

Nothing here reads the database. Start with `errors`, then `endpoint`.
"""
