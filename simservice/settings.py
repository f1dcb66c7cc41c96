"""All settings. They are read from the environment; `.env.example` lists each one with its default."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.http.request import split_domain_port, validate_host

from simservice.body_limit import MAX_BODY_BYTES, MAX_FORM_BYTES
from simservice.environment import Environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()


def _artifact_storage() -> dict[str, Any]:
    """Return the storage of artifacts: a bucket if one is set, else a folder in `DATA_DIR`."""
    bucket = env.text("ARTIFACTS_BUCKET")
    options = {
        "endpoint_url": env.web_address("ARTIFACTS_ENDPOINT_URL"),
        "region": env.text("ARTIFACTS_REGION"),
        "access_key_id": env.text("ARTIFACTS_ACCESS_KEY_ID"),
        "secret_access_key": env.text("ARTIFACTS_SECRET_ACCESS_KEY"),
    }
    env.require(
        bucket or not any(options.values()), "ARTIFACTS_BUCKET is not set, but other settings of the bucket are."
    )
    env.require(
        bool(options["access_key_id"]) == bool(options["secret_access_key"]),
        "Set both ARTIFACTS_ACCESS_KEY_ID and ARTIFACTS_SECRET_ACCESS_KEY, or neither.",
    )
    if bucket:
        return {"BACKEND": "simservice.storages.s3.BucketStorage", "OPTIONS": {"bucket": bucket, **options}}
    folder = str(DATA_DIR / "artifacts")
    return {"BACKEND": "simservice.storages.local.LocalStorage", "OPTIONS": {"location": folder}}


# The deployment
DEBUG = env.flag("DEBUG", default=False)
SECRET_KEY = env.required("SECRET_KEY", "the key that signs sessions and links: a long random string")
# Earlier values of SECRET_KEY, which still verify and decrypt
SECRET_KEY_FALLBACKS = env.names("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.allowed_hosts("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS")
DATA_DIR = Path(env.text("DATA_DIR", default=str(BASE_DIR / ".local"))).resolve()

# Number of proxies in front of the service that set X-Forwarded-For and X-Forwarded-Proto; 0 ignores these headers
TRUSTED_PROXIES = env.integer("TRUSTED_PROXIES", default=0)

# Encrypts game credentials instead of SECRET_KEY
CREDENTIALS_KEY = env.text("CREDENTIALS_KEY")

# Webhooks: keys that encrypt signing secrets instead of SECRET_KEY, limits of each client, addresses that need not
# follow the address rules, and certificate authorities to trust in addition to the system's
WEBHOOK_SECRETS_KEYS = env.names("WEBHOOK_SECRETS_KEYS")
WEBHOOK_PER_SECOND = env.integer("WEBHOOK_PER_SECOND", default=20, minimum=1)
WEBHOOK_IN_FLIGHT = env.integer("WEBHOOK_IN_FLIGHT", default=4, minimum=1)
WEBHOOK_ALLOWED_ADDRESSES = env.hosts_with_ports("WEBHOOK_ALLOWED_ADDRESSES")
WEBHOOK_CA_FILE = env.file("WEBHOOK_CA_FILE")

# Settings that change the API: docs/reference/api.md#variants
API_RESOURCE = env.matching(
    "API_RESOURCE", "[a-z][a-z0-9-]*", "lower-case letters, digits and hyphens", default="sim"
)
SERVICE_BRAND = env.text("SERVICE_BRAND", default="Service")
API_VARIANT = env.one_of("API_VARIANT", "C", "R")
# Whether to respond at the addresses that community scripts use: docs/how-to/use-existing-tools.md
COMPATIBLE_ADDRESSES = env.flag("COMPATIBLE_ADDRESSES", default=False)
PUBLIC_BASE_URL = env.web_address("PUBLIC_BASE_URL").rstrip("/")
# Links at the end of every page
FOOTER_LINKS = env.links("FOOTER_LINKS")
# Where the names of items and spells lead
GAME_DATABASE_URL = env.address_template("GAME_DATABASE_URL", "kind", "id")

# Branches that a job can choose; the first is the default
GIT_BRANCHES = env.names("GIT_BRANCHES", default=["midnight"])
BUILD_RETENTION_DAYS = env.integer("BUILD_RETENTION_DAYS", default=90, minimum=1)

# The maximum iterations and the minimum target error; a profile beyond a limit runs at the limit, with a warning
MAX_ITERATIONS = env.integer("MAX_ITERATIONS", default=250_000, minimum=1)
MIN_TARGET_ERROR = env.number("MIN_TARGET_ERROR", default=0.01)

# Jobs: leases, sweep, attempts, shutdown and retention
LEASE_SECONDS = env.integer("LEASE_SECONDS", default=15, minimum=2)
HEARTBEAT_SECONDS = env.integer("HEARTBEAT_SECONDS", default=5, minimum=1)
SWEEP_SECONDS = env.integer("SWEEP_SECONDS", default=2, minimum=1)
MAX_ATTEMPTS = env.integer("MAX_ATTEMPTS", default=3, minimum=1)
STOP_SECONDS = env.integer("STOP_SECONDS", default=20)
RETENTION_DAYS = env.integer("RETENTION_DAYS", default=30, minimum=1)

# The sandbox, and the limits of one job
SANDBOX = env.one_of("SANDBOX", "required", "auto")
SIM_MEMORY_BYTES = env.integer("SIM_MEMORY_BYTES", default=4 << 30, minimum=1 << 20)
SIM_DISK_BYTES = env.integer("SIM_DISK_BYTES", default=512 << 20, minimum=1 << 20)
SIM_OUTPUT_BYTES = env.integer("SIM_OUTPUT_BYTES", default=256 << 20, minimum=1 << 20)

# The only hosts that a simulator with game credentials can reach, on port 443
GAME_API_HOSTS = env.host_names(
    "GAME_API_HOSTS",
    default=[
        *(f"{region}.battle.net" for region in ("us", "eu", "apac")),
        *(f"{region}.api.blizzard.com" for region in ("us", "eu", "kr", "tw")),
        *(f"{name}.battlenet.com.cn" for name in ("www", "gateway")),
    ],
)

# The lengths of the client ID and secret that the simulator accepts; other credentials are refused
GAME_CLIENT_ID_LENGTH = env.integer("GAME_CLIENT_ID_LENGTH", default=32, minimum=1)
GAME_CLIENT_SECRET_LENGTH = env.integer("GAME_CLIENT_SECRET_LENGTH", default=32, minimum=1)

# How many jobs can wait (0: no limit), the Retry-After of a maintenance (0: none), and the bearer token of /metrics
# (empty: /metrics returns 404)
MAX_QUEUE_LENGTH = env.integer("MAX_QUEUE_LENGTH", default=100_000)
MAINTENANCE_SECONDS = env.integer("MAINTENANCE_SECONDS", default=0)
METRICS_TOKEN = env.text("METRICS_TOKEN")

# Traces: the address of an OpenTelemetry collector (empty: none). OpenTelemetry reads it too.
OTEL_EXPORTER_OTLP_ENDPOINT = env.web_address("OTEL_EXPORTER_OTLP_ENDPOINT")

# Forms a minute that one logged-in user can submit, on all pages
FORMS_PER_MINUTE = env.integer("FORMS_PER_MINUTE", default=120, minimum=1)
# Requests a minute that one address can make to share pages, artifacts and manifests, which need no key
PUBLIC_REQUESTS_PER_MINUTE = env.integer("PUBLIC_REQUESTS_PER_MINUTE", default=300, minimum=1)
# Files over 64 KiB that a web process sends at once: each occupies a thread while its client reads
MAX_LARGE_RESPONSES = env.integer("MAX_LARGE_RESPONSES", default=4, minimum=1)

# Users: whether anyone can sign up, the plan of their accounts, and the credits of each first account (0: none).
# The default pays for an hour of simulation on a new plan; the maximum is the ledger's.
ALLOW_SIGNUP = env.flag("ALLOW_SIGNUP", default=True)
SIGNUP_PLAN = env.text("SIGNUP_PLAN", default="standard")
SIGNUP_CREDITS = env.integer("SIGNUP_CREDITS", default=115_200, maximum=10**12)
INVITATION_DAYS = 7
ADMIN_REQUIRES_MFA = env.flag("ADMIN_REQUIRES_MFA", default=True)

# Without EMAIL_URL, no mail is sent or printed, because logs must not contain links.
vars().update(env.mail("EMAIL_URL"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("EMAIL_FROM", default="noreply@localhost")

ROOT_URLCONF = "simservice.urls"
WSGI_APPLICATION = "simservice.wsgi.application"
APPEND_SLASH = False
INSTALLED_APPS = [
    # This class does not load the admin pages; `simservice/urls.py` does, and workers do not load it.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "django_htmx",
    "simservice",
    "billing",
    "clients",
    "webhooks",
    "jobs",
    "privacy",
    "dashboard",
]
MIDDLEWARE = [
    "simservice.telemetry.metrics.MetricsMiddleware",
    "simservice.api.middleware.RequestIdMiddleware",
    *(["simservice.telemetry.tracing.TracingMiddleware"] if OTEL_EXPORTER_OTLP_ENDPOINT else []),
    "simservice.web.middleware.NoStoreMiddleware",
    "simservice.web.error_pages.EnvelopeMiddleware",
    "simservice.api.middleware.MaintenanceMiddleware",
    "simservice.web.large_responses.LargeResponsesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "simservice.web.middleware.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "simservice.web.middleware.HostMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "clients.rate_limits.FormLimitMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.context.site",
            ]
        },
    }
]

# The timeouts release the locks of a process that hangs in a transaction. The check stops statements whose process
# has died or closed its connection, which would otherwise keep their locks until they end. The keepalives end the
# connection within half a minute if the machine or network of the process is gone.
DATABASES: dict[str, dict[str, Any]] = {"default": env.database("DATABASE_URL")}
DATABASES["default"]["ENGINE"] = "simservice.postgresql"
DATABASES["default"].setdefault("OPTIONS", {}).update(
    application_name="simservice",
    # Notices within half a minute that the server's machine or network is gone. Unix sockets ignore these.
    keepalives_idle=10,
    keepalives_interval=5,
    keepalives_count=3,
    tcp_user_timeout=30_000,
    connect_timeout=5,
    # PostgreSQL plans each prepared statement of simservice/postgresql/statements.py only once per connection.
    options="-c idle_in_transaction_session_timeout=15s -c lock_timeout=10s -c client_connection_check_interval=1s"
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c plan_cache_mode=force_generic_plan",
)
DATABASES["default"].update(CONN_MAX_AGE=600, CONN_HEALTH_CHECKS=True)
# Behind a pooler, the next rows of a cursor outside a transaction are requested on another connection.
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis stores only what may be lost: announcements, progress and counters.
REDIS_URL = env.redis("REDIS_URL")

# Django's cache counts login attempts. While Redis does not respond, nothing is counted and nobody is locked out.
CACHES = {"default": {"BACKEND": "simservice.redis.cache.BestEffortCache", "LOCATION": REDIS_URL}}

# A lost or repeated message costs only seconds, so messages are not retried, stored or prefetched.
CELERY_BROKER_URL = REDIS_URL
# Received messages are not recorded in Redis (`ack_emulation`). The queues of a worker are consumed in the order of
# its `--queues`.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 10,
    "health_check_interval": 10,
    "ack_emulation": False,
    "queue_order_strategy": "priority",
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Otherwise, a worker ends when Redis answers with an error, such as READONLY or MISCONF.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# No task is acknowledged late or prefetched, so these only reduce what Celery logs when it loses a connection.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_ENABLE_PREFETCH_COUNT_REDUCTION = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_BEAT_SCHEDULER = "simservice.beat:SharedScheduler"
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "jobs.tasks.sweep", "schedule": SWEEP_SECONDS},
    "expire-grants": {"task": "billing.tasks.expire_grants", "schedule": 60},
    "grant-allowances": {"task": "billing.tasks.grant_allowances", "schedule": 60},
    "forget-credentials": {"task": "jobs.tasks.forget_credentials", "schedule": 60},
    "report-low-credits": {"task": "webhooks.tasks.report_low_credits", "schedule": 60},
    "maintain-webhooks": {"task": "webhooks.tasks.maintain", "schedule": 60},
    "forget-builds": {"task": "jobs.tasks.forget_builds", "schedule": 3600},
    "clear-expired": {"task": "jobs.tasks.clear_expired", "schedule": 60},
    "build-exports": {"task": "privacy.tasks.build_exports", "schedule": 30},
    "delete-data": {"task": "privacy.tasks.delete_data", "schedule": 60},
    "forget-sessions": {"task": "dashboard.tasks.forget_sessions", "schedule": 3600},
}

# The folder that `collectstatic` filled with hashed and compressed files. Without it, WhiteNoise serves the files
# of the checkout as they are.
STATIC_ROOT = env.text("STATIC_ROOT")
if STATIC_ROOT:
    STATIC_ROOT = str(Path(STATIC_ROOT).resolve())
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = not STATIC_ROOT
STORAGES = {
    "default": _artifact_storage(),
    "staticfiles": {
        "BACKEND": "simservice.web.static_files.CollectedFiles"
        if STATIC_ROOT
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["clients.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["clients.rate_limits.RateLimits"],
    # Endpoints that read a body list their own parsers.
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "simservice.api.parsers.JsonOnly",
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
    "EXCEPTION_HANDLER": "simservice.api.exception_handler.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "simservice.api.openapi.DocumentedSchema",
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": f"{SERVICE_BRAND} API",
    "DESCRIPTION": "Takes character simulation jobs, runs them and keeps their results.",
    "VERSION": "v1",
    "SERVERS": [{"url": PUBLIC_BASE_URL or "/"}],
    # Keep enums where they are used, without generated descriptions.
    "POSTPROCESSING_HOOKS": [],
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SORT_OPERATIONS": False,
}
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_FORM_BYTES
# The web server already stores large bodies in temporary files, so uploads need no disk here.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]
FILE_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES + 1

# Login (django-allauth): with an email address, or with a username for operators
AUTHENTICATION_BACKENDS = ["dashboard.login.backends.LoginBackend"]
MIN_PASSWORD_LENGTH = 10
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": MIN_PASSWORD_LENGTH},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "dashboard"
CSRF_FAILURE_VIEW = "dashboard.public.views.form_expired"
ACCOUNT_ADAPTER = "dashboard.login.adapters.UserAdapter"
ACCOUNT_FORMS = {
    "login": "dashboard.forms.LoginForm",
    "signup": "dashboard.forms.SignUpForm",
    "reset_password": "dashboard.forms.PasswordResetForm",
    "reset_password_from_key": "dashboard.forms.NewPasswordForm",
    "change_password": "dashboard.forms.ChangePasswordForm",
    "add_email": "dashboard.forms.ChangeEmailForm",
    "reauthenticate": "dashboard.forms.PasswordAgainForm",
}
MFA_FORMS = {"authenticate": "dashboard.forms.CodeForm", "reauthenticate": "dashboard.forms.CodeAgainForm"}
# Failed logins are counted by login and IP address together (`UserAdapter`). A count by email address alone would
# let anyone lock its owner out.
ACCOUNT_RATE_LIMITS = {"login_failed": "10/m/ip,5/5m/key", "reset_password": "20/m/ip"}
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_CHANGE_EMAIL = True
# To change an email address or a second factor, users enter their password or a code again after five minutes.
ACCOUNT_REAUTHENTICATION_REQUIRED = MFA_REAUTHENTICATION_REQUIRED = True
ACCOUNT_CONFIRM_EMAIL_ON_GET = False
ACCOUNT_LOGOUT_REDIRECT_URL = "home"
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# Users are notified of a changed password or second factor. No mail is sent to unknown addresses.
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
MFA_ADAPTER = "dashboard.login.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = SERVICE_BRAND
# Also accept the previous and the next code (30 s each), for inexact clocks and slow typing.
MFA_TOTP_TOLERANCE = 1
# Operators need a second factor but have no email address.
MFA_ALLOW_UNVERIFIED_EMAIL = True

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
X_FRAME_OPTIONS = "DENY"
# Without a referrer, browsers send no origin with forms, and the CSRF check rejects them.
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.flag("SECURE_COOKIES", default=not DEBUG)
CSRF_COOKIE_HTTPONLY = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
# Health checks and Prometheus use HTTP inside the network.
SECURE_SSL_REDIRECT = env.flag("SSL_REDIRECT", default=False)
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = env.integer("HSTS_SECONDS", default=0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.flag("HSTS_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.flag("HSTS_PRELOAD", default=False)
# HSTS_SUBDOMAINS and HSTS_PRELOAD affect other services of the domain, so their defaults are not mistakes.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

LOG_LEVEL = env.one_of("LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")
LOG_FORMAT = env.one_of("LOG_FORMAT", "text", "json")
# The project of Sentry that receives the errors in the log (empty: none)
SENTRY_DSN = env.sentry("SENTRY_DSN")
_sentry = (
    {"sentry": {"()": "simservice.telemetry.sentry.SentryHandler", "dsn": SENTRY_DSN, "filters": ["ids"]}}
    if SENTRY_DSN
    else {}
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
        "json": {"()": "simservice.telemetry.logs.JsonLines"},
    },
    "filters": {
        "known_errors": {"()": "simservice.telemetry.known_errors.ExplainKnownErrors"},
        "ids": {"()": "simservice.telemetry.logs.AddIds"},
        "paths": {"()": "simservice.telemetry.logs.HidePaths"},
        "repeats": {"()": "simservice.telemetry.logs.DropRepeats"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["known_errors", "ids", "paths"],
        },
        **_sentry,
    },
    "root": {"handlers": ["console", *_sentry], "level": LOG_LEVEL},
    "loggers": {
        # Celery would log every message, at least one every two seconds.
        **{name: {"level": "WARNING"} for name in ("celery.beat", "celery.worker.strategy", "celery.app.trace")},
        # While Redis answers with errors, Celery reconnects five times a second.
        **{f"celery.worker.consumer.{name}": {"filters": ["repeats"]} for name in ("consumer", "connection")},
        "kombu.transport.redis": {"filters": ["repeats"]},
        # Anyone can send a wrong Host header, and each one would log a traceback.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # Receivers of webhooks can cause warnings, some of which contain the URL's path, which can be a secret.
        "urllib3": {"level": "ERROR"},
    },
}

# Settings that contradict each other
env.require(
    HEARTBEAT_SECONDS < LEASE_SECONDS,
    f"HEARTBEAT_SECONDS is {HEARTBEAT_SECONDS}; it must be less than LEASE_SECONDS ({LEASE_SECONDS}).",
)
env.require(GIT_BRANCHES, "GIT_BRANCHES is empty; it must contain at least one branch.")
env.require(
    SECURE_HSTS_SECONDS or not (SECURE_HSTS_INCLUDE_SUBDOMAINS or SECURE_HSTS_PRELOAD),
    "HSTS_SECONDS is 0, so HSTS_SUBDOMAINS and HSTS_PRELOAD have no effect. Set it, or set both to false.",
)
_host = split_domain_port(urlsplit(PUBLIC_BASE_URL).netloc)[0]
env.require(
    not _host or validate_host(_host, ALLOWED_HOSTS),
    f"ALLOWED_HOSTS does not contain the host of PUBLIC_BASE_URL, {_host}, so requests to it would fail.",
)
env.require(
    not (SECURE_SSL_REDIRECT and PUBLIC_BASE_URL.startswith("http:")),
    "PUBLIC_BASE_URL begins with http://, but SSL_REDIRECT redirects to https://.",
)
env.require(
    not (SESSION_COOKIE_SECURE and PUBLIC_BASE_URL.startswith("http:")),
    "PUBLIC_BASE_URL begins with http://, but browsers send secure cookies only over HTTPS, so nobody could log in."
    " Use https://, or set SECURE_COOKIES=false.",
)
env.check()
