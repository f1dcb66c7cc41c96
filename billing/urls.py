"""URL of the credits endpoint."""

from django.conf import settings
from django.urls import path

from billing import api

urlpatterns = [path(f"v1/{settings.API_RESOURCE}/credits", api.CreditsView.as_view())]
