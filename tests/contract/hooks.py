"""Hooks for schemathesis: rules of the API that the OpenAPI document cannot express."""

import json
import os
from typing import Any
from zlib import crc32

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import Failure
from schemathesis.openapi.checks import RejectedPositiveData

# Errors that well-formed requests can cause: all with these statuses, and these codes.
REFUSAL_STATUSES = {402, 409, 422, 429}
REFUSAL_CODES = {"webhook_not_configured", "invalid_cursor"}
# Messages about limits that the document does not contain.
LIMITS = ("your plan's limit", "bytes as JSON", "Only one of the two limits", "together, or neither")
PROFILES = (
    'mage="One"\nlevel=80\niterations=5\n',
    'mage="Two"\nlevel=80\niterations=5\nprofileset."a"+=head=,id=1,ilevel=600\n',
    'warrior="Three"\nlevel=80\niterations=5\ntarget_error=0.000001\n',
)
FILES = ("data.json", "data.full.json", "data.csv", "input.txt", "output.txt", "report.html")
CREDENTIALS = {"X-Bnet-Client-Id", "X-Bnet-Client-Secret"}


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Complete a request, or let it use existing data."""
    drop_nulls(case)
    if prepare := PREPARATIONS.get(operation_id(case)):
        prepare(case)


def drop_nulls(case: Case) -> None:
    """Remove query parameters that a link set to null, such as the cursor of the last page."""
    for name in [name for name, value in case.query.items() if value in (None, "None")]:
        del case.query[name]


def operation_id(case: Case) -> str:
    """Return the operation id of a case."""
    return str(case.operation.definition.raw["operationId"])


def make_whole(case: Case) -> None:
    """Remove parameters of the other media type, and give every other submission a valid profile."""
    if case.media_type == "text/plain":
        case.query.setdefault("channel", "latest")
        if not set(case.headers) >= CREDENTIALS:
            drop_credentials(case)
    elif case.media_type == "application/json":
        case.query.clear()
        drop_credentials(case)
        case.body = with_integers(case.body)
    put_profile(case)


def make_entries_whole(case: Case) -> None:
    """Give the submissions of a batch valid profiles."""
    case.body = with_integers(case.body)
    entries = case.body.get("jobs") if isinstance(case.body, dict) else None
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            entry.pop("credentials", None)
            entry["profile"] = {"text": PROFILES[number % len(PROFILES)]}


def with_integers(value: Any) -> Any:
    """Return a value with whole floats as integers. JSON Schema treats both as integers."""
    if isinstance(value, dict):
        return {key: with_integers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [with_integers(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def put_known(case: Case) -> None:
    """Use an existing id in every other request."""
    for name, drawn in case.path_parameters.items():
        if name != "file" and is_chosen(str(drawn)):
            case.path_parameters[name] = os.environ[f"KNOWN_{operation_id(case)}"]


def drop_cursor(case: Case) -> None:
    """Request the first page every other time, because the API rejects generated cursors."""
    if is_chosen(str(case.query.get("cursor"))):
        case.query.pop("cursor", None)
    drop_ids(case)


def drop_ids(case: Case) -> None:
    """Send `ids` alone every other time, and otherwise not at all, because it excludes other parameters."""
    ids = case.query.get("ids")
    if ids is not None and is_chosen(str(ids)):
        case.query = {"ids": ids}
    else:
        case.query.pop("ids", None)


def wait_briefly(case: Case) -> None:
    """Wait for a change for a second at most, because every test run has many such requests."""
    if str(case.query.get("wait")) in map(str, range(1, 26)):
        case.query["wait"] = 1


def choose_file(case: Case) -> None:
    """Request a file of the known job. Another name below a share link is an unknown page, not an API error."""
    put_known(case)
    if case.path_parameters["file"] not in FILES:
        case.path_parameters["file"] = FILES[0]


def is_chosen(drawn: str) -> bool:
    """Return whether a text is in one half of all texts, the same in each run."""
    return crc32(drawn.encode("utf-8", "replace")) % 2 == 0


PREPARATIONS = {
    "submitJob": make_whole,
    "submitBatch": make_entries_whole,
    "validateJob": make_whole,
    "getJobStatus": wait_briefly,
    "listJobs": drop_cursor,
    "getJobResult": put_known,
    "getArtifactUrl": put_known,
    "downloadArtifact": put_known,
    "getManifest": put_known,
    "getReportData": choose_file,
}


def drop_credentials(case: Case) -> None:
    """Remove the headers with game credentials."""
    for name in CREDENTIALS:
        case.headers.pop(name, None)


def put_profile(case: Case) -> None:
    """Replace every other profile with a valid one."""
    body: Any = case.body
    if isinstance(body, str):
        case.body = runnable(body)
    elif isinstance(body, dict) and isinstance(body.get("profile"), dict):
        profile = body["profile"]
        if isinstance(profile.get("text"), str):
            profile["text"] = runnable(profile["text"])


def runnable(text: str) -> str:
    """Return a small profile for half of all texts, the text itself for the others."""
    return PROFILES[len(text) % len(PROFILES)] if is_chosen(text) else text


@schemathesis.deserializer("text/csv", "text/html")
def as_text(context: Any, response: Response) -> str:
    """Return a report that is not JSON as text."""
    return response.content.decode(errors="replace")


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Ignore failures about rejected valid data if the error is in `REFUSALS` or about a limit."""
    return not (isinstance(failure, RejectedPositiveData) and is_domain_refusal(response))


def is_domain_refusal(response: Response) -> bool:
    """Return whether a well-formed request can cause the error."""
    body = json.loads(response.content)
    if body["code"] != "validation_failed":
        return response.status_code in REFUSAL_STATUSES or body["code"] in REFUSAL_CODES
    return all(any(limit in issue["message"] for limit in LIMITS) for issue in body["meta"]["issues"])
