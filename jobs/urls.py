"""Public URLs of jobs' artifacts and manifests."""

from django.urls import path

from jobs.api.downloads import artifact
from jobs.api.manifest import manifest

urlpatterns = [
    path("artifacts/<token:token>", artifact, name="artifact"),
    path("manifests/<token:token>", manifest, name="manifest"),
]
