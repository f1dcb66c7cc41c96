"""The API's addresses. The resource's segment is a setting and is spelled nowhere else."""

from django.conf import settings
from django.urls import include, path

from jobs.api import views

resource = [
    path("jobs", views.JobList.as_view()),
    path("jobs/<str:job_id>", views.JobDetail.as_view()),
    path("jobs/<str:job_id>/status", views.JobStatus.as_view()),
    path("jobs/<str:job_id>/result", views.JobResult.as_view()),
    path("jobs/<str:job_id>/profile", views.JobProfile.as_view()),
    path("jobs/<str:job_id>/cancel", views.JobCancel.as_view()),
    path("usage", views.Usage.as_view()),
    path("builds", views.BuildList.as_view()),
    path("builds/<str:build_id>", views.BuildDetail.as_view()),
    path("artifacts/<str:artifact_id>/url", views.ArtifactUrl.as_view()),
]
urlpatterns = [path(f"v1/{settings.API_RESOURCE}/", include(resource))]
