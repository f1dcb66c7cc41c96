"""The pages' addresses."""

from django.urls import include, path

from dashboard import docs, overview, profile, views

urlpatterns = [
    path("", views.home, name="home"),
    path("docs", docs.docs, name="docs"),
    path("share/<token:token>", views.share, name="share"),
    # Logging in, and what belongs to a user rather than to an account
    path("accounts/", include("allauth.account.urls")),
    path("accounts/2fa/", include("allauth.mfa.urls")),
    path("accounts/profile/", profile.profile, name="profile"),
    path("accounts/sessions/", profile.sessions, name="usersessions_list"),
    # Pages of an account
    path("dashboard/", overview.choose, name="dashboard"),
    path("dashboard/<slug:account>/", overview.overview, name="overview"),
]
