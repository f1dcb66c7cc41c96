"""The pages' addresses."""

from django.urls import path

from dashboard import views

urlpatterns = [
    path("", views.home, name="home"),
    path("share/<token:token>", views.share, name="share"),
]
