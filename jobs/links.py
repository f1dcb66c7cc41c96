"""The public addresses of a job: share page, manifest and artifacts."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from jobs.api import shapes
from jobs.models import Artifact, Job
from simservice.api.addresses import base_url


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
        links: shapes.Links = {"share": self.base + reverse("share", args=[job.share_token])}
        if job.is_terminal:
            links["manifest"] = self.base + reverse("manifest", args=[job.share_token])
        return links

    def artifact(self, artifact: Artifact) -> str:
        """Return the address an artifact can be downloaded from without a credential."""
        return self.base + reverse("artifact", args=[artifact.token])

    def docs(self, anchor: str) -> str:
        """Return the address of a place on the documentation's page."""
        return f"{self.base}/docs#{anchor}"
