"""The public addresses of what jobs leave behind."""

from django.urls import path

from jobs.api import downloads

urlpatterns = [
    path("artifacts/<token:token>", downloads.artifact, name="artifact"),
    path("manifests/<token:token>", downloads.manifest, name="manifest"),
]
