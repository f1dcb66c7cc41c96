"""Addresses of the console, below that of the admin."""

from django.contrib import admin
from django.urls import path

from dashboard.console import accounts, builds, capacity, jobs, records, webhooks
from dashboard.console.overview import overview
from dashboard.console.search import search

protected = admin.site.admin_view
urlpatterns = [
    path("", protected(overview), name="console"),
    path("overview/", protected(overview), name="admin_overview"),
    path("search/", protected(search), name="admin_search"),
    path("records/", protected(records.records), name="console_records"),
    path("console/jobs/<id:job_id>/page/", protected(jobs.customer_page), name="console_job_page"),
    path("console/jobs/<id:job_id>/profile/", protected(jobs.profile), name="console_profile"),
    path("console/accounts/", protected(accounts.accounts), name="console_accounts"),
    path("console/accounts/<id:account_id>/", protected(accounts.account), name="console_account"),
    path("console/builds/", protected(builds.builds), name="console_builds"),
    path("console/capacity/", protected(capacity.capacity), name="console_capacity"),
    path("console/capacity/lanes/<str:lane>/", protected(capacity.change_lane), name="console_lane"),
    path("console/capacity/machines/<str:host>/", protected(capacity.change_machine), name="console_machine"),
    path("console/webhooks/", protected(webhooks.webhooks), name="console_webhooks"),
]
