"""Programs that call an operation of the API: in curl and JavaScript from the OpenAPI document, and in Python."""

import json
import re
import shlex
from typing import Any, NamedTuple

from simservice.api.jsonschema import Schema

# The environment variables for the parameters of paths
VARIABLES = {"job_id": "JOB", "build_id": "BUILD", "artifact_id": "ARTIFACT", "token": "TOKEN"}
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
    "replaceLinks": "print(client.jobs.replace_links({job_id}).links.share)",
    "getUsage": "print(client.usage().period.sims_run)",
    "listBuilds": "for build in client.builds.list():\n    print(build.channel, build.simc_version)",
    "getBuild": "print(client.builds.get({build_id}).commit)",
    "getArtifactUrl": "print(client.artifacts.url({artifact_id}))",
    "getCredits": "print(client.credits().purchased)",
    "downloadArtifact": 'print(client.jobs.download({job_id}, Path("reports")))',
    "getManifest": 'print(client.manifest("{base}/manifests/" + {token}).mean)',
    "getOpenApi": 'print(client.openapi()["info"]["title"])',
    "getHealth": "print(client.alive().status)",
    "getReadiness": "print(client.readiness().status)",
}


class CodeExample(NamedTuple):
    """A program in a language, which runs as it is if the environment variables that it names are set."""

    language: str
    code: str


def code_examples(operation: Schema, *, method: str, path: str, base: str, resource: str) -> list[CodeExample]:
    """Return a program in each language. `base` is the address of the service."""
    body = _json_body(operation)
    has_key = bool(operation.get("security"))
    called = _Call(method=method.upper(), path=path, base=base, body=body, has_key=has_key)
    return [
        CodeExample("curl", _curl(called)),
        CodeExample("Python", _python(operation["operationId"], base=base, resource=resource)),
        CodeExample("JavaScript", _javascript(called, is_json=_is_json(operation))),
    ]


class _Call(NamedTuple):
    """A request: its body is None if it has none."""

    method: str
    path: str
    base: str
    body: Any
    has_key: bool


def _json_body(operation: Schema) -> Any:
    """Return the first example of the JSON body, None if the operation takes none."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return next((example["value"] for example in content.get("examples", {}).values()), None)


def _is_json(operation: Schema) -> bool:
    return set(operation["responses"]["200"]["content"]) == {"application/json"}


def _curl(call: _Call) -> str:
    path = PARAMETER.sub(lambda match: f"${VARIABLES[match[1]]}", call.path)
    lines = [f'curl "{call.base}{path}"']
    if call.method != "GET" and call.body is None:
        lines.append(f"-X {call.method}")
    if call.has_key:
        lines.append('-H "Authorization: Bearer $KEY"')
    if call.body is not None:
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(json.dumps(call.body))}"]
    return " \\\n  ".join(lines)


def _javascript(call: _Call, *, is_json: bool) -> str:
    path = PARAMETER.sub(lambda match: f"${{process.env.{VARIABLES[match[1]]}}}", call.path)
    headers = ["Authorization: `Bearer ${process.env.KEY}`"] if call.has_key else []
    headers += ['"Content-Type": "application/json"'] if call.body is not None else []
    options = [f'method: "{call.method}"'] if call.method != "GET" else []
    options += [f"headers: {{ {', '.join(headers)} }}"] if headers else []
    options += [f"body: JSON.stringify({json.dumps(call.body)})"] if call.body is not None else []
    rest = ", {\n" + "".join(f"  {option},\n" for option in options) + "}" if options else ""
    read = "json" if is_json else "text"
    return (
        f"const response = await fetch(`{call.base}{path}`{rest});\n"
        f"console.log(response.status, await response.{read}());"
    )


def _python(operation_id: str, *, base: str, resource: str) -> str:
    variables = {name: f'os.environ["{variable}"]' for name, variable in VARIABLES.items()}
    code = PARAMETER.sub(lambda match: {**variables, "base": base}[match[1]], PYTHON[operation_id])
    names = "Client, submission" if "submission(" in code else "Client"
    option = "" if resource == "sim" else f', resource="{resource}"'
    return "\n".join(
        [
            "import os",
            *(["from pathlib import Path"] if "Path(" in code else []),
            f"from simservice_client import {names}",
            "",
            f'client = Client("{base}", os.environ["KEY"]{option})',
            code,
        ]
    )
