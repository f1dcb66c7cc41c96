"""The examples of the API documentation run as they are copied, against a real stack."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests

from dashboard.public.docs import PYTHON, RESOURCES
from tests.stack import LONG, QUICK, ROOT, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]
EXAMPLE = re.compile(r'<pre tabindex="0" role="region" aria-label="[^"]* in (\w+)">(.*?)</pre>', re.DOTALL)
SECTION = re.compile(r'<section id="(\w+)" class="docs-operation">(.*?)</section>', re.DOTALL)
OPERATIONS = sorted(
    operation["operationId"]
    for methods in json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"].values()
    for operation in methods.values()
)
# Commands that run a program in a file
COMMANDS = {"curl": "bash", "Python": sys.executable, "JavaScript": "node"}
ENDINGS = {"curl": ".sh", "Python": ".py", "JavaScript": ".mjs"}


@pytest.fixture(scope="module")
def examples(stack: Stack) -> dict[str, dict[str, str]]:
    """The programs on the pages of the resources, by operation and language."""
    pages = [requests.get(f"{stack.ready['url']}/docs/operations/{slug}", timeout=30).text for slug in RESOURCES]
    sections = {name: EXAMPLE.findall(section) for page in pages for name, section in SECTION.findall(page)}
    return {
        name: {language: html.unescape(code) for language, code in found}
        for name, found in sections.items()
        if found
    }


@pytest.fixture(scope="module")
def variables(stack: Stack) -> dict[str, str]:
    """The environment variables that the programs read."""
    job_id = stack.submit(QUICK)
    stack.wait_for_end(job_id)
    result = stack.call("GET", f"jobs/{job_id}/result")
    artifact = next(each for each in result["result"]["artifacts"] if each["kind"] == "json_report")
    return {
        "KEY": stack.ready["apiKey"],
        "JOB": job_id,
        "BUILD": result["build"]["id"],
        "ARTIFACT": artifact["id"],
        "ARTIFACT_TOKEN": artifact["url"].rpartition("/")[2],
        "SHARE_TOKEN": result["links"]["share"].rpartition("/")[2],
        "FILE": "data.json",
        "MANIFEST_TOKEN": result["links"]["manifest"].rpartition("/")[2],
    }


def run(code: str, language: str, *, variables: Mapping[str, str], folder: Path) -> str:
    """Run a program and return what it prints."""
    program = folder / f"program{ENDINGS[language]}"
    program.write_text(code)
    (folder / "profile.simc").write_text(QUICK)
    ran = subprocess.run(
        [COMMANDS[language], program], cwd=folder, env=os.environ | variables, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_operation_has_an_example_in_each_language(examples: dict[str, dict[str, str]]) -> None:
    assert sorted(examples) == OPERATIONS == sorted(PYTHON)
    assert {tuple(found) for found in examples.values()} == {tuple(COMMANDS)}


@pytest.mark.parametrize("language", COMMANDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_examples_run(
    stack: Stack,
    examples: dict[str, dict[str, str]],
    variables: dict[str, str],
    operation: str,
    language: str,
    tmp_path: Path,
) -> None:
    if shutil.which(COMMANDS[language]) is None:
        pytest.skip(f"{COMMANDS[language]} is not installed")
    tokens = {"getManifest": "MANIFEST_TOKEN", "getReportData": "SHARE_TOKEN"}
    token = tokens.get(operation, "ARTIFACT_TOKEN")
    given = variables | {"TOKEN": variables[token]}
    if operation == "replaceLinks":
        given["JOB"] = stack.submit()
    if operation in ("cancelJob", "pauseJob", "resumeJob"):
        given["JOB"] = stack.submit(LONG)
    if operation == "resumeJob":
        stack.call("POST", f"jobs/{given['JOB']}/pause")
    output = run(examples[operation][language], language, variables=given, folder=tmp_path)
    assert output.strip()
    if language == "JavaScript":
        assert output.startswith("200 ")
    elif language == "curl":
        assert "requestId" not in json.loads(output)
    if operation in ("pauseJob", "resumeJob"):
        stack.call("POST", f"jobs/{given['JOB']}/cancel")
