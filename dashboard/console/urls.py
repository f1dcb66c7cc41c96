"""Addresses of the console, below that of the admin."""

from django.contrib import admin
from django.urls import path

from dashboard.console.overview import overview
from dashboard.console.search import search

urlpatterns = [
    path("overview/", admin.site.admin_view(overview), name="admin_overview"),
    path("search/", admin.site.admin_view(search), name="admin_search"),
]
