"""Public URLs of a job: share page, manifest and artifacts."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, NotRequired, TypedDict

from django.http import HttpRequest
from django.urls import reverse

from jobs.models import Artifact, Job
from simservice.api.addresses import base_url
from simservice.ids import TOKEN_CHARACTERS
from simservice.shapes import Url


class Links(TypedDict):
    """Public URLs of a job. They need no API key and return 404 after the retention period."""

    share: Annotated[Url, "Web page that shows the job"]
    manifest: NotRequired[Annotated[Url, "The result as a JSON document. Present once the job has ended"]]


@dataclass(frozen=True)
class LinkBuilder:
    """Builds URLs below one base, `PUBLIC_BASE_URL` or the host of the request."""

    base: str

    @classmethod
    def for_request(cls, request: HttpRequest) -> "LinkBuilder":
        """Return a builder of links for the caller of `request`."""
        return cls(base_url(request))

    def of(self, job: Job) -> Links:
        """Return the URL of the share page and, once the job has ended, of the manifest."""
        links: Links = {"share": self.base + path_to("share", job.share_token)}
        if job.is_terminal:
            links["manifest"] = self.base + path_to("manifest", job.share_token)
        return links

    def artifact(self, artifact: Artifact) -> str:
        """Return the download URL of an artifact. It needs no API key."""
        return self.base + path_to("artifact", artifact.token)

    def docs(self, anchor: str) -> str:
        """Return the URL of a section of the API's rules: `docs/reference/api.md`."""
        return f"{self.base}/docs/api#{anchor}"


def path_to(name: str, token: str) -> str:
    """Return the path of a URL pattern that takes a token."""
    start, end = _around_token(name)
    return start + token + end


@cache
def _around_token(name: str) -> tuple[str, str]:
    """Return the parts of a path before and after its token. Cached: `reverse` is slow for a list of jobs."""
    placeholder = "x" * TOKEN_CHARACTERS
    start, _, end = reverse(name, args=[placeholder]).partition(placeholder)
    return start, end
