"""The pages' addresses."""

from django.urls import include, path

from dashboard.account import audit_log, clients, deliveries, export_and_delete, people, profile, webhooks
from dashboard.account import credits as credit_pages
from dashboard.jobs import (
    compare,
    first_steps,
    history,
    job_form,
    job_list,
    job_page,
    overview,
    run_again,
    search,
    sharing,
)
from dashboard.login import sign_up
from dashboard.public import docs, guides, views
from dashboard.public.card.view import card

account_pages = [
    path("", overview.overview, name="overview"),
    path("first-steps/sample", first_steps.run_sample, name="run_sample"),
    path("first-steps/hide", first_steps.hide, name="hide_first_steps"),
    path("jobs", job_list.jobs, name="jobs"),
    path("jobs/new", job_form.submit_job, name="submit_job"),
    path("jobs/check", job_form.check_job, name="check_job"),
    path("jobs/<id:job_id>", job_page.job, name="job"),
    path("jobs/<id:job_id>/run", run_again.run_again, name="run_again"),
    path("jobs/<id:job_id>/cancel", job_page.cancel, name="cancel_job"),
    path("jobs/<id:job_id>/links", job_page.replace_links, name="replace_links"),
    path("jobs/<id:job_id>/title", job_page.rename, name="rename_job"),
    path("search", search.search, name="search"),
    path("history", history.history, name="history"),
    path("compare", compare.compare, name="compare"),
    path("clients", clients.clients, name="clients"),
    path("clients/<id:client_id>", clients.client, name="client"),
    path("clients/<id:client_id>/webhook", webhooks.webhook, name="webhook"),
    path("clients/<id:client_id>/webhook/url", webhooks.change_url, name="webhook_url"),
    path("clients/<id:client_id>/webhook/rotate", webhooks.rotate, name="rotate_webhook"),
    path("clients/<id:client_id>/webhook/disable", webhooks.disable, name="disable_webhook"),
    path("clients/<id:client_id>/webhook/test", webhooks.send_test, name="test_webhook"),
    path("clients/<id:client_id>/webhook/failed", deliveries.send_failed, name="send_failed"),
    path("events/<slug:name>", deliveries.event, name="event"),
    path("keys/<id:key_id>", clients.key, name="key"),
    path("keys/<id:key_id>/revoke", clients.revoke_key, name="revoke_key"),
    path("credits", credit_pages.balance, name="credits"),
    path("credits.csv", credit_pages.entries_csv, name="entries_csv"),
    path("usage", credit_pages.used, name="usage"),
    path("usage.csv", credit_pages.usage_csv, name="usage_csv"),
    path("audit", audit_log.audit_log, name="audit"),
    path("audit.csv", audit_log.audit_csv, name="audit_csv"),
    path("data", export_and_delete.account_data, name="account_data"),
    path("data/exports/<id:export_id>", export_and_delete.account_export, name="account_export"),
    path("data/delete", export_and_delete.delete_account, name="delete_account"),
    path("data/sharing", export_and_delete.account_sharing, name="account_sharing"),
    path("data/keep", export_and_delete.keep_account, name="keep_account"),
    path("people", people.people, name="people"),
    path("people/leave", people.leave, name="leave_account"),
    path("people/<id:member_id>/role", people.change_role, name="change_role"),
    path("people/<id:member_id>/remove", people.remove, name="remove_member"),
    path("invitations/<id:invitation_id>/revoke", people.revoke_invitation, name="revoke_invitation"),
]
urlpatterns = [
    path("", views.home, name="home"),
    path("example", views.example, name="example"),
    path("docs", docs.docs, name="docs"),
    path("docs/guides", guides.guides, name="guides"),
    path("docs/<slug:page>", guides.reference, name="reference"),
    path("docs/guides/<slug:guide>", guides.guide, name="guide"),
    path("share/<token:token>", sharing.share, name="share"),
    path("share/<token:token>/card.png", card, name="share_card"),
    path("share/<token:token>/run", run_again.run_shared, name="run_again_share"),
    path("compare", compare.compare_shared, name="compare_shared"),
    # Logging in, and what belongs to a user rather than to an account
    path("accounts/", include("allauth.account.urls")),
    path("accounts/signup/<str:token>/", sign_up.finish, name="finish_sign_up"),
    path("accounts/2fa/", include("allauth.mfa.urls")),
    path("accounts/profile/", profile.profile, name="profile"),
    path("accounts/sessions/", profile.sessions, name="usersessions_list"),
    path("accounts/data/", export_and_delete.user_data, name="user_data"),
    path("accounts/data/exports/<id:export_id>/", export_and_delete.user_export, name="user_export"),
    path("accounts/delete/", export_and_delete.delete_user, name="delete_user"),
    path("invitations/<token:token>", people.invitation, name="invitation"),
    path("dashboard/", overview.choose, name="dashboard"),
    path("dashboard/<slug:account>/", include(account_pages)),
]
