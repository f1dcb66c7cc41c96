"""Get a ranking with nothing but an address and a key: everything else is read from `/llms.txt`.

Prints a line with the mean and the name of each variant. This program knows the forms of the documents, an HTTP
client's rules and JSON, but no address, field or status of the API.
"""

import re
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import requests

STEP = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
REQUEST = re.compile(r"`(GET|POST) (\S+)`")
LINK = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)
WORD = re.compile(r"`([\w.]+)`")


class Reader:
    """A client that learns the API from its documents."""

    def __init__(self, base: str, key: str) -> None:
        self._http = requests.Session()
        self.text = self._http.get(f"{base}/llms.txt", timeout=30).text
        self.steps: list[str] = STEP.findall(self.text)
        links = dict(LINK.findall(self.text))
        self.openapi = self._http.get(links["OpenAPI document"], timeout=30).json()
        (scheme,) = self.openapi["components"]["securitySchemes"].values()
        self._http.headers["Authorization"] = f"{scheme['scheme'].title()} {key}"

    def profile(self) -> str:
        """Return the example profile."""
        found = re.search(r"```\w*\n(.*?)```", self.text, re.DOTALL)
        assert found
        return found[1]

    def send(self, step: str, *, body: str | None = None, **values: str) -> Any:
        """Send the request of a step, which the OpenAPI document must describe."""
        found = REQUEST.search(step)
        assert found
        method, template = found.groups()
        operation = self.openapi["paths"][urlsplit(template).path][method.lower()]
        headers = {}
        if body is not None:
            (headers["Content-Type"],) = [name for name in operation["requestBody"]["content"] if "text" in name]
        names = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        url = template.format(**dict.fromkeys(names, *values.values()))
        while True:
            response = self._http.request(method, url, data=body, headers=headers, timeout=60)
            if response.status_code not in (429, 503):
                response.raise_for_status()
                return response.json()
            time.sleep(int(response.headers["Retry-After"]))


def words_of(step: str, after: str) -> list[str]:
    """Return the words in code after a text of a step."""
    return WORD.findall(step.partition(after)[2])


def at(body: Any, path: str) -> Any:
    """Return the value at a dotted path."""
    for name in path.split("."):
        body = body[name]
    return body


def main(base: str, key: str) -> None:
    """Follow the steps and print the ranking."""
    reader = Reader(base, key)
    check, submit, wait, read = reader.steps
    profile = reader.profile()
    verdict = words_of(check, "`. ")[0]
    assert at(reader.send(check, body=profile), verdict) is True
    job = at(reader.send(submit, body=profile), words_of(submit, "Take")[0])
    state, *ends = words_of(wait, "until")
    while at(reader.send(wait, job=job), state) not in ends:
        pass
    path, name, mean, *_ = words_of(read, "`. ")
    for entry in at(reader.send(read, job=job), path):
        sys.stdout.write(f"{at(entry, mean):.1f} {at(entry, name)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
