"""URL patterns of the jobs API. Only this file reads the `API_RESOURCE` setting, a part of every path."""

from django.conf import settings
from django.urls import include, path

from jobs.api import (
    compatible,
    errors,  # noqa: F401  registers the HTTP responses of errors
    webhook,  # noqa: F401  adds the webhook to the OpenAPI document
)
from jobs.api.actions import CancelJobView, PauseJobView, ReplaceLinksView, ResumeJobView
from jobs.api.artifacts import ArtifactUrlView
from jobs.api.batch import BatchView
from jobs.api.builds import BuildListView, BuildView
from jobs.api.downloads import artifact
from jobs.api.jobs import JobListView, JobProfileView, JobView
from jobs.api.manifest import manifest
from jobs.api.report_data import report_file
from jobs.api.result import JobResultView
from jobs.api.status import JobStatusView
from jobs.api.submission import SubmissionView
from jobs.api.usage import UsageView
from jobs.api.validate import ValidateView


class JobsView(SubmissionView, JobListView):
    """`POST` and `GET` of `/v1/{resource}/jobs`"""


resource = [
    path("jobs", JobsView.as_view()),
    path("jobs/batch", BatchView.as_view()),
    path("jobs/validate", ValidateView.as_view()),
    path("jobs/<str:job_id>", JobView.as_view()),
    path("jobs/<str:job_id>/status", JobStatusView.as_view()),
    path("jobs/<str:job_id>/result", JobResultView.as_view()),
    path("jobs/<str:job_id>/profile", JobProfileView.as_view()),
    path("jobs/<str:job_id>/cancel", CancelJobView.as_view()),
    path("jobs/<str:job_id>/pause", PauseJobView.as_view()),
    path("jobs/<str:job_id>/resume", ResumeJobView.as_view()),
    path("jobs/<str:job_id>/replace-links", ReplaceLinksView.as_view()),
    path("usage", UsageView.as_view()),
    path("builds", BuildListView.as_view()),
    path("builds/<str:build_id>", BuildView.as_view()),
    path("artifacts/<str:artifact_id>/url", ArtifactUrlView.as_view()),
]
urlpatterns = [
    path(f"v1/{settings.API_RESOURCE}/", include(resource)),
    path("artifacts/<token:token>", artifact, name="artifact"),
    path("manifests/<token:token>", manifest, name="manifest"),
    path("share/<token:token>/<datafile:file>", report_file, name="report_data"),
]
if settings.COMPATIBLE_ADDRESSES:
    urlpatterns += compatible.urlpatterns
