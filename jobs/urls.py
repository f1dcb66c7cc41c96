"""The public addresses of what jobs leave behind."""

from django.urls import path

from jobs import downloads

urlpatterns = [
    path("artifacts/<str:token>", downloads.artifact, name="artifact"),
    path("manifests/<str:token>", downloads.manifest, name="manifest"),
]
