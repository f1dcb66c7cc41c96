"""The public addresses of a job: share page, manifest and artifacts."""

from dataclasses import dataclass
from functools import cache

from django.http import HttpRequest
from django.urls import reverse

from jobs.api import shapes
from jobs.models import Artifact, Job
from simservice.api.addresses import base_url
from simservice.ids import TOKEN_CHARACTERS


@dataclass(frozen=True)
class Links:
    """Addresses below one base, `PUBLIC_BASE_URL` or the host the request came to."""

    base: str

    @classmethod
    def for_request(cls, request: HttpRequest) -> "Links":
        """Return the links as the caller of `request` should see them."""
        return cls(base_url(request))

    def of(self, job: Job) -> shapes.Links:
        """Return the share page's address, and the manifest's once the job has ended."""
        links: shapes.Links = {"share": self.base + path_to("share", job.share_token)}
        if job.is_terminal:
            links["manifest"] = self.base + path_to("manifest", job.share_token)
        return links

    def artifact(self, artifact: Artifact) -> str:
        """Return the address an artifact can be downloaded from without a credential."""
        return self.base + path_to("artifact", artifact.token)

    def docs(self, anchor: str) -> str:
        """Return the address of a place on the documentation's page."""
        return f"{self.base}/docs#{anchor}"


def path_to(name: str, token: str) -> str:
    """Return the path of a view that is found by a token."""
    start, end = around_token(name)
    return start + token + end


@cache
def around_token(name: str) -> tuple[str, str]:
    """Return what stands before and after the token in such a path; resolving it for each job of a list is slow."""
    placeholder = "x" * TOKEN_CHARACTERS
    start, _, end = reverse(name, args=[placeholder]).partition(placeholder)
    return start, end
