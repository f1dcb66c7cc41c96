"""The pages' addresses."""

from django.urls import path

from dashboard import docs, views

urlpatterns = [
    path("", views.home, name="home"),
    path("docs", docs.docs, name="docs"),
    path("share/<token:token>", views.share, name="share"),
]
