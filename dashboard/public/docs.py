"""The pages of the API's operations and objects, rendered from the OpenAPI document.

Each operation has programs that call it.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from billing import ledger
from dashboard.context import Navigation
from dashboard.public.compression import compressed_for_visitors
from jobs.lifecycle import usage
from simservice.api.addresses import api_url
from simservice.api.jsonschema import Schema
from simservice.api.methods import read_only

# Texts for the keywords of a schema.
KEYWORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} entries",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "default": "default {}",
}
# The environment variables for the parameters of paths
VARIABLES = {"job_id": "JOB", "build_id": "BUILD", "artifact_id": "ARTIFACT", "token": "TOKEN", "file": "FILE"}
# The tags of the document, in its order
RESOURCES = {"jobs": "Jobs", "account": "Account", "builds": "Builds", "public": "Public", "health": "Health"}
MAX_TERM = 100
PARAMETER = re.compile(r"\{(\w+)\}")
# What a program does with a `client` of the Python library, by operation. `{job}` and the like are variables.
PYTHON = {
    "submitJob": 'job = client.jobs.submit(open("profile.simc").read())\nprint(job.id, job.links.share)',
    "submitBatch": 'batch = [submission(open("profile.simc").read(), priority="background")]\n'
    "for entry in client.jobs.submit_batch(batch):\n    print(entry.job.id if entry.job else entry.refusal)",
    "validateJob": 'found = client.jobs.validate(open("profile.simc").read())\nprint(found.valid, found.estimate)',
    "listJobs": 'for job in client.jobs.list(status=["completed"]):\n    print(job.id, job.title)',
    "getJob": "print(client.jobs.get({job_id}).status)",
    "getJobStatus": "print(client.jobs.status({job_id}, wait=25).progress.percent)",
    "getJobResult": "print(client.jobs.results({job_id}).mean)",
    "getJobProfile": "print(client.jobs.profile({job_id}))",
    "cancelJob": "print(client.jobs.cancel({job_id}).status)",
    "pauseJob": "print(client.jobs.pause({job_id}).status)",
    "resumeJob": "print(client.jobs.resume({job_id}).status)",
    "replaceLinks": "print(client.jobs.replace_links({job_id}).links.share)",
    "getUsage": "print(client.usage().period.sims_run)",
    "listBuilds": "for build in client.builds.list():\n    print(build.channel, build.simc_version)",
    "getBuild": "print(client.builds.get({build_id}).commit)",
    "getArtifactUrl": "print(client.artifacts.url({artifact_id}))",
    "getCredits": "print(client.credits().purchased)",
    "downloadArtifact": 'print(client.jobs.download({job_id}, Path("reports")))',
    "getManifest": 'print(client.manifest("{base}/manifests/" + {token}).mean)',
    "getReportData": 'print(client.report_data("{base}/share/" + {token})["simbot"]["title"])',
    "getOpenApi": 'print(client.openapi()["info"]["title"])',
    "getHealth": "print(client.alive().status)",
    "getReadiness": "print(client.readiness().status)",
}


@compressed_for_visitors
@read_only
def docs(request: HttpRequest) -> HttpResponse:
    """Show how to start, and every operation and object, or those that contain a text."""
    term = request.GET.get("q", "").strip()[:MAX_TERM]
    found = _filtered(reference_of(request), term)
    return _respond(request, "docs.html", {**found, "term": term, "address": api_url(request), "page": "docs"})


@compressed_for_visitors
@read_only
def resource(request: HttpRequest, resource: str) -> HttpResponse:
    """Show the operations of a resource."""
    if resource not in RESOURCES:
        raise Http404
    (tag,) = (tag for tag in reference_of(request)["tags"] if tag["slug"] == resource)
    return _respond(request, "docs_resource.html", {"tag": tag, "page": resource})


@compressed_for_visitors
@read_only
def object_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the fields of an object."""
    shown = next((entry for entry in reference_of(request)["objects"] if entry["name"] == name), None)
    if shown is None:
        raise Http404
    return _respond(request, "docs_object.html", {"object": shown, "page": "object"})


def _respond(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    return render(request, template, {**context, "resources": RESOURCES, "standing": standing_of(request)})


def standing_of(request: HttpRequest) -> dict[str, Any] | None:
    """Return the limits and the use of a logged-in user's account, None without an account."""
    access = Navigation(request).access if request.user.is_authenticated else None
    if access is None:
        return None
    account = access.account
    return {
        "account": account,
        "plan": account.plan,
        "balances": ledger.balances(account),
        "unfinished": usage.snapshot(account),
    }


def reference_of(request: HttpRequest) -> dict[str, Any]:
    """Return all operations and objects, with the addresses of this deployment."""
    return _reference(address=api_url(request), variant=settings.API_VARIANT)


# The host name in the address comes from requests, so only a few are kept.
@lru_cache(maxsize=4)
def _reference(*, address: str, variant: str) -> dict[str, Any]:  # noqa: ARG001  the document depends on the variant
    """Return all operations and objects for the templates. The two arguments are all that they depend on."""
    from simservice.api.openapi import document  # imported late: it loads the generator (3 MB)

    openapi = document()
    return {
        "tags": _tags(openapi, base=address.removesuffix(f"/v1/{settings.API_RESOURCE}")),
        "objects": [
            {
                "name": name,
                "description": schema.get("description", ""),
                "rows": [
                    _row(field, type_, required=field in schema.get("required", []))
                    for field, type_ in schema.get("properties", {}).items()
                ],
            }
            for name, schema in openapi["components"]["schemas"].items()
        ],
    }


def _filtered(reference: dict[str, Any], term: str) -> dict[str, Any]:
    """Return the operations and objects that contain a text, in upper or lower case."""

    def contain(*texts: str) -> bool:
        return term.casefold() in " ".join(texts).casefold()

    tags = [
        {**tag, "operations": [one for one in tag["operations"] if contain(one["id"], one["summary"], one["path"])]}
        for tag in reference["tags"]
    ]
    objects = [one for one in reference["objects"] if contain(one["name"], *(row["name"] for row in one["rows"]))]
    return {"tags": [tag for tag in tags if tag["operations"]], "objects": objects}


def _tags(openapi: Schema, *, base: str) -> list[dict[str, Any]]:
    """Return the operations grouped by tag, in the document's order. `base` is the address of the service."""
    operations = [
        _operation(method, path, methods[method], base=base)
        for path, methods in openapi["paths"].items()
        # POST comes before GET.
        for method in sorted(methods, reverse=True)
    ]
    order = list(dict.fromkeys(operation["tag"] for operation in operations))
    ordered = sorted(operations, key=lambda operation: order.index(operation["tag"]))
    groups = groupby(ordered, lambda operation: operation["tag"])
    return [{"name": tag, "slug": tag.lower(), "operations": list(group)} for tag, group in groups]


def _operation(method: str, path: str, operation: Schema, *, base: str) -> dict[str, Any]:
    """Return an operation for the template. Responses with error codes are listed separately."""
    responses = [_response(status, response) for status, response in operation["responses"].items()]
    return {
        "id": operation["operationId"],
        "tag": operation["tags"][0],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": operation.get("description", ""),
        "code": _programs(operation, method.upper(), path, base=base),
        "public": not operation.get("security"),
        "scope": operation.get("x-scope"),
        "parameters": [_parameter(parameter) for parameter in operation.get("parameters", [])],
        "bodies": list(_bodies(operation.get("requestBody", {}))),
        "responses": [response for response in responses if not response["codes"]],
        "errors": [response for response in responses if response["codes"]],
    }


def _parameter(parameter: Schema) -> dict[str, Any]:
    overrides = {
        "location": parameter["in"],
        "description": parameter["description"],
        "deprecated": parameter.get("deprecated", False),
    }
    return _row(parameter["name"], parameter["schema"], required=parameter["required"]) | overrides


def _response(status: str, response: Schema) -> dict[str, Any]:
    """Return a response with its body and an example, or with its error codes."""
    bodies = list(_bodies(response))
    return {
        "status": status,
        "description": response["description"],
        "body": bodies[0] if bodies else None,
        "codes": [code for body in response.get("content", {}).values() for code in body.get("examples", {})],
    }


def _bodies(parent: Schema) -> Iterator[dict[str, Any]]:
    """Yield the bodies of a request or response, each with its type and its last inline example."""
    for media_type, content in parent.get("content", {}).items():
        inline = [example["value"] for example in content.get("examples", {}).values() if "value" in example]
        example = content.get("example", inline[-1] if inline else None)
        text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        yield {"media_type": media_type, "example": text, **_type_of(content["schema"])}


def _row(name: str, schema: Schema, *, required: bool) -> dict[str, Any]:
    # A format says the same as its pattern, but is easier to read.
    keywords = {name: value for name, value in schema.items() if name != "pattern" or "format" not in schema}
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in keywords.items()}
    notes = [text.format(values[keyword]) for keyword, text in KEYWORDS.items() if keyword in values]
    return {
        "name": name,
        "required": required,
        "deprecated": schema.get("deprecated", False),
        "description": schema.get("description", ""),
        "notes": ", ".join(notes),
        **_type_of(schema),
    }


def _type_of(schema: Schema) -> dict[str, str]:
    """Return a schema's type as text, and the object it links to, if any."""
    return {"type": _type_text(schema), "object": next(_objects_in(schema), "")}


def _type_text(schema: Schema) -> str:
    if "$ref" in schema:
        return _name_of(schema)
    if "anyOf" in schema:
        return " or ".join(_type_text(member) for member in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "items" in schema:
        nullable = " or null" if "null" in schema["type"] else ""
        return f"list of {_type_text(schema['items'])}{nullable}"
    types = schema.get("type", "any")
    names = types if isinstance(types, str) else " or ".join(types)
    return f"{names} ({schema['format']})" if "format" in schema else names


def _objects_in(schema: Schema) -> Iterator[str]:
    """Yield the names of the objects that a schema refers to."""
    if "$ref" in schema:
        yield _name_of(schema)
    for member in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from _objects_in(member)


def _name_of(reference: Mapping[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def _programs(operation: Schema, method: str, path: str, *, base: str) -> list[dict[str, str]]:
    """Return a program in each language, which runs as it is if the environment variables that it names are set.

    `base` is the address of the service. The body is the first example of the JSON body.
    """
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = next((json.dumps(example["value"], indent=2) for example in content.get("examples", {}).values()), None)
    has_key = bool(operation.get("security"))
    is_json = set(operation["responses"]["200"]["content"]) == {"application/json"}
    return [
        {"language": "curl", "code": _curl(method, base + path, body, has_key=has_key)},
        {"language": "Python", "code": _python(operation["operationId"], base=base)},
        {
            "language": "JavaScript",
            "code": _javascript(method, base + path, body, has_key=has_key, is_json=is_json),
        },
    ]


def _curl(method: str, url: str, body: str | None, *, has_key: bool) -> str:
    lines = [f'curl "{PARAMETER.sub(lambda match: f"${VARIABLES[match[1]]}", url)}"']
    if method != "GET" and body is None:
        lines.append(f"-X {method}")
    if has_key:
        lines.append('-H "Authorization: Bearer $KEY"')
    if body is not None:
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(body)}"]
    return " \\\n  ".join(lines)


def _javascript(method: str, url: str, body: str | None, *, has_key: bool, is_json: bool) -> str:
    url = PARAMETER.sub(lambda match: f"${{process.env.{VARIABLES[match[1]]}}}", url)
    headers = ["Authorization: `Bearer ${process.env.KEY}`"] if has_key else []
    headers += ['"Content-Type": "application/json"'] if body is not None else []
    options = [f'method: "{method}"'] if method != "GET" else []
    options += [f"headers: {{ {', '.join(headers)} }}"] if headers else []
    options += [f"body: JSON.stringify({body})"] if body is not None else []
    rest = ", {\n" + "".join(f"  {option},\n" for option in options) + "}" if options else ""
    read = "json" if is_json else "text"
    return f"const response = await fetch(`{url}`{rest});\nconsole.log(response.status, await response.{read}());"


def _python(operation_id: str, *, base: str) -> str:
    variables = {name: f'os.environ["{variable}"]' for name, variable in VARIABLES.items()}
    code = PARAMETER.sub(lambda match: {**variables, "base": base}[match[1]], PYTHON[operation_id])
    names = "Client, submission" if "submission(" in code else "Client"
    option = "" if settings.API_RESOURCE == "sim" else f', resource="{settings.API_RESOURCE}"'
    paths = "from pathlib import Path\n" if "Path(" in code else ""
    imports = f"import os\n{paths}from simservice_client import {names}\n"
    return f'{imports}\nclient = Client("{base}", os.environ["KEY"]{option})\n{code}'
