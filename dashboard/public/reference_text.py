"""The operations and objects of the OpenAPI document as Markdown, from the data of their HTML pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def resource_text(tag: Mapping[str, Any], *, docs_url: str) -> str:
    """Return the operations of a resource. `docs_url` is the address of the documentation."""
    operations = [_operation_text(operation, docs_url=docs_url) for operation in tag["operations"]]
    return "\n\n".join([f"# {tag['name']}", *operations]) + "\n"


def object_text(entry: Mapping[str, Any], *, docs_url: str) -> str:
    """Return the fields of an object."""
    parts = [f"# {entry['name']}", entry["description"], _rows_text(entry["rows"], docs_url=docs_url)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _operation_text(operation: Mapping[str, Any], *, docs_url: str) -> str:
    key = "No API key required." if operation["public"] else ""
    parts = [
        f"## {operation['summary']}",
        f"`{operation['method']} {operation['path']}` (`{operation['id']}`)",
        " ".join(part for part in (operation["description"], key) if part),
        *_section("### Parameters", _rows_text(operation["parameters"], docs_url=docs_url)),
    ]
    for body in operation["bodies"]:
        parts += [f"### Request body: {body['media_type']}", _type(body, docs_url=docs_url), _example(body)]
    for response in operation["responses"]:
        parts += _response_parts(response, docs_url=docs_url)
    parts += _section("### Errors", _errors_text(operation["errors"], docs_url=docs_url))
    for program in operation["code"]:
        parts += [f"### {program['language']}", _fenced(program["code"])]
    return "\n\n".join(part for part in parts if part)


def _section(heading: str, text: str) -> Sequence[str]:
    return (heading, text) if text else ()


def _response_parts(response: Mapping[str, Any], *, docs_url: str) -> Iterator[str]:
    yield f"### Response {response['status']}"
    yield response["description"]
    if body := response["body"]:
        yield f"{body['media_type']}: {_type(body, docs_url=docs_url)}"
        yield _example(body)


def _errors_text(responses: Iterable[Mapping[str, Any]], *, docs_url: str) -> str:
    return "\n".join(
        f"- {response['status']}: "
        + ", ".join(f"[`{code}`]({docs_url}/errors.md#{code})" for code in response["codes"])
        for response in responses
    )


def _rows_text(rows: Iterable[Mapping[str, Any]], *, docs_url: str) -> str:
    """Return fields or parameters as a list."""
    return "\n".join(_row_text(row, docs_url=docs_url) for row in rows)


def _row_text(row: Mapping[str, Any], *, docs_url: str) -> str:
    marks = [
        _type(row, docs_url=docs_url),
        row.get("location", ""),
        "" if row["required"] else "optional",
        "deprecated" if row["deprecated"] else "",
        row["notes"],
    ]
    text = f"- `{row['name']}` ({', '.join(mark for mark in marks if mark)})"
    return f"{text}: {row['description']}" if row["description"] else text


def _type(of: Mapping[str, str], *, docs_url: str) -> str:
    """Return a type as text, linked to its object."""
    return f"[{of['type']}]({docs_url}/objects/{of['object']}.md)" if of["object"] else of["type"]


def _example(body: Mapping[str, str]) -> str:
    return _fenced(body["example"])


def _fenced(text: str) -> str:
    """Return a block of code. No example contains a fence."""
    return f"```\n{text.rstrip()}\n```"
