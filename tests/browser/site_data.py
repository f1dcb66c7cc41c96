"""Data for every page: jobs in every status, clients, webhook deliveries, a month of usage."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import psycopg

from dashboard.public.documents import FILES, INDEX, REFERENCE
from tests.browser.chromium import Visitor
from tests.stack import ROOT, Stack
from tests.webhooks.receivers import Receiver

ACCOUNT = "/dashboard/demo"
PROFILES = ROOT / "minisim" / "profiles"
# Variants of the running job that have finished before it is suspended
WATCHED = 12
GEAR = [line for line in (PROFILES / "frost_mage_gear.simc").read_text().splitlines() if "+=" in line]
VAULT = [
    f'profileset."Trinket {number} of the vault"+=trinket1=of_the_vault,id={number},ilevel={600 + 4 * number}'
    for number in range(1, 25)
]
STAGES = "\n".join([(PROFILES / "frost_mage.simc").read_text(), "iterations=500", *GEAR, *VAULT])
# A ranking that grows while it is watched
RANKED = "\n".join([(PROFILES / "frost_mage.simc").read_text(), "target_error=0.1", *GEAR, *VAULT])
# Teaches the service that profilesets are quick, so that it starts few simulators for the next job.
FEW = 'mage="Few"\nlevel=80\niterations=1000\n' + "".join(f"profileset.{n}+=intellect=9{n}00\n" for n in range(4))
OTHER = FEW.replace("profileset.3", "profileset.another").replace("9100", "9900")
ACTORS = 'warrior="Bruna"\nlevel=80\niterations=200\n' + "".join(
    f'copy="Bruna with {number} trinkets"\nstrength={8000 + 300 * number}\n' for number in (1, 2)
)
FAILS = 'mage="Broken"\nlevel=80\nfight_style=NoSuchStyle\n'
REFUSED = 'mage="Frosty"\nlevel=80\nxml=/etc/passwd\nsave=profile.simc\nhead=,id=1\n'
MEMBER = "somebody.of.the.guild@example.com"
JOINED = """
    WITH someone AS (
        INSERT INTO auth_user (username, email, password, first_name, last_name, is_superuser, is_staff, is_active,
                               date_joined)
        VALUES ('somebody', %s, '', '', '', false, false, true, now()) RETURNING id
    ), joined AS (
        INSERT INTO clients_membership (user_id, account_id, role)
        SELECT someone.id, a.id, 'member' FROM someone, billing_account a WHERE a.name = 'demo'
    )
    UPDATE clients_apikey SET created_by_id = someone.id FROM someone WHERE name = 'laptop'
"""
HISTORY = """
    INSERT INTO jobs_dailyusage (account_id, client_id, build_id, day, jobs, runs, sim_ms, credits)
    SELECT c.account_id, c.id, (SELECT id FROM jobs_build LIMIT 1), (now() AT TIME ZONE 'utc')::date - n,
           5 + (n * 7) % 11, 5 + (n * 7) % 11, (4 + (n * 5) % 13) * 31000, (4 + (n * 5) % 13) * 992
    FROM generate_series(1, 40) n, clients_client c JOIN billing_account a ON a.id = c.account_id
    WHERE a.name = 'demo' AND c.is_default AND n % 7 <> 3
"""
FAILING = """
    INSERT INTO webhooks_endpoint (client_id, url, secret, old_secret, created_at, disabled_at, disabled_for)
    SELECT id, 'https://hooks.example.com/simulations', '', '', now(), now() - interval '2 hours', 'failing'
    FROM clients_client WHERE name = 'forgotten-bot'
"""


@dataclass(frozen=True)
class View:
    """A page: its name, and how a visitor opens it."""

    name: str
    reach: Callable[[Visitor], object]
    # Django's own pages have more styles and scripts than ours may have.
    is_ours: bool = True


def at(name: str, path: str, *, is_ours: bool = True) -> View:
    """Return a page with a fixed address."""
    return View(name, lambda visitor: visitor.open(path), is_ours)


@dataclass(frozen=True)
class SiteData:
    """The created data: jobs by their content, and addresses of clients."""

    stack: Stack
    jobs: dict[str, str]
    clients: dict[str, str]
    key: str
    event: str
    # Two jobs with the same variants
    pair: tuple[str, str]

    def views(self) -> Iterator[View]:
        """Yield every page of the site."""
        yield from (at(name, path) for name, path in PUBLIC.items())
        for name in ("stages", "failed", "hidden", "running", "waiting"):
            yield at(f"share-{name}", self.stack.job(self.jobs[name])["links"]["share"])
        yield from (at(name, path) for name, path in OWN.items())
        yield at("share-filtered", f"{self.stack.job(self.jobs['stages'])['links']['share']}{FILTERED}")
        yield from (at(name, f"{ACCOUNT}{path}") for name, path in PAGES.items())
        yield from (at(f"job-{name}", f"{ACCOUNT}/jobs/{job}") for name, job in self.jobs.items())
        for part in ("profile", "log", "files"):
            yield at(f"job-stages-{part}", f"{ACCOUNT}/jobs/{self.jobs['stages']}/{part}")
        yield from self.comparisons()
        for name, path in self.clients.items():
            yield at(f"client-{name}", path)
            yield at(f"webhook-{name}", f"{path}/webhook")
        for name, rest in (("change", "url"), ("rotate", "rotate"), ("send-again", "failed")):
            yield at(f"webhook-{name}", f"{self.clients['guild-bot']}/webhook/{rest}")
        yield at("key", self.key)
        yield at("webhook-event", self.event)
        yield View("second-factor-setup", self.set_up_second_factor)
        yield View("job-checked", self.check_sample)
        yield View("job-refused", self.submit_refused)
        yield View("key-made", self.make_key)
        yield View("webhook-secret", self.rotate)
        yield View("person-invited", self.invite)
        yield View("invitation", self.follow_invitation)
        yield View("person-remove", self.remove)
        yield from (at(name, path) for name, path in ADMIN.items())
        yield from (at(name, path, is_ours=False) for name, path in DJANGO_ADMIN.items())
        yield from (at(f"admin-job-{name}", f"/admin/jobs/job/{job}/change/") for name, job in self.jobs.items())
        yield at("admin-profile", f"/admin/console/jobs/{self.jobs['stages']}/profile/")
        yield View("admin-action", self.choose_action)
        yield View("admin-plan-changes", lambda visitor: self.change_plan(visitor, "100"))
        yield View("admin-plan-refused", lambda visitor: self.change_plan(visitor, "0"), is_ours=False)
        yield View("admin-found", self.search)

    def choose_action(self, visitor: Visitor) -> None:
        """Choose to cancel all jobs in the admin, without confirming it."""
        visitor.open("/admin/jobs/job/")
        for box in visitor.page.locator("input[name=_selected_action]").all():
            box.check()
        visitor.page.locator("select[name=action]").select_option("cancel")
        visitor.press("Preview")

    def search(self, visitor: Visitor) -> None:
        """Search the console for an account and for jobs by their title."""
        visitor.open("/admin/search/")
        visitor.page.get_by_label("ID, title, character or name").fill("demo")
        visitor.press("Search")

    def change_plan(self, visitor: Visitor, max_active_jobs: str) -> None:
        """Change a plan in the admin, without confirming it."""
        visitor.open("/admin/billing/plan/")
        visitor.page.locator("th.field-name a").first.click()
        visitor.fill(credits_per_second="40", max_active_jobs=max_active_jobs)
        visitor.press("Save")

    def comparisons(self) -> Iterator[View]:
        """Yield the pages that compare jobs: chosen ones, refused ones, and those of share links."""
        chosen = [self.jobs[name] for name in ("stages", "actors", "failed", "waiting")]
        tokens = [self.stack.job(job)["links"]["share"].rpartition("/")[2] for job in chosen]
        yield at("compare-variants", f"{ACCOUNT}/compare?{urlencode([('job', job) for job in self.pair])}")
        yield at("compare-choose", f"{ACCOUNT}/compare?job={chosen[0]}")
        yield at("compare", f"{ACCOUNT}/compare?{urlencode([('job', job) for job in chosen])}")
        yield at("compare-refused", f"{ACCOUNT}/compare?job={chosen[0]}&job={chosen[0]}")
        yield at("compare-shared", f"/compare?{urlencode([('share', token) for token in tokens[:3]])}")

    def set_up_second_factor(self, visitor: Visitor) -> None:
        visitor.open("/accounts/2fa/totp/activate/")
        if visitor.page.url.endswith("/activate/"):
            return
        visitor.fill(password=self.stack.ready["password"])
        visitor.press("Confirm")

    def check_sample(self, visitor: Visitor) -> None:
        """Load the sample into the job form, and wait for its check."""
        visitor.open(f"{ACCOUNT}/jobs/new")
        visitor.follow("Load sample")
        visitor.page.locator("#verdict", has_text="Ready to submit.").wait_for()

    def submit_refused(self, visitor: Visitor) -> None:
        visitor.open(f"{ACCOUNT}/jobs/new")
        visitor.fill(profile=REFUSED)
        visitor.press("Submit job")

    def make_key(self, visitor: Visitor) -> None:
        visitor.open(self.clients["guild-bot"])
        visitor.reveal("New key")
        visitor.fill(name="for the night")
        visitor.press("Create key")

    def rotate(self, visitor: Visitor) -> None:
        visitor.open(f"{self.clients['guild-bot']}/webhook/rotate")
        visitor.press("Rotate secret")

    def invite(self, visitor: Visitor, email: str = "somebody.else@example.com") -> None:
        visitor.open(f"{ACCOUNT}/people")
        visitor.reveal("New invitation")
        visitor.fill(email=email)
        visitor.press("Send invitation")

    def follow_invitation(self, visitor: Visitor) -> None:
        self.invite(visitor, "somebody.new@example.com")
        visitor.open(visitor.page.locator(".secret").inner_text())

    def remove(self, visitor: Visitor) -> None:
        visitor.open(f"{ACCOUNT}/people")
        visitor.follow(f"Remove {MEMBER}")


PUBLIC = {
    "home": "/",
    "example": "/example",
    "docs": "/docs",
    "docs-jobs": "/docs/operations/jobs",
    "docs-object": "/docs/objects/Job",
    "docs-filtered": "/docs?q=cancel",
    **{f"docs-{name}": f"/docs/{name}" for name in REFERENCE},
    "guides": "/docs/guides",
    **{f"guide-{name}": f"/docs/guides/{name}" for name in FILES if name != INDEX},
    "compare-links": "/compare",
    "not-found": "/nowhere",
    "reset": "/accounts/password/reset/",
    "reset-sent": "/accounts/password/reset/done/",
    "inactive": "/accounts/inactive/",
    "sign-up-sent": "/accounts/confirm-email/",
    "sign-up-expired": "/accounts/signup/expired/",
}
FILTERED = "?q=trinket&only=upgrades&base=2&sort=name&by=crit"
# For visitors who are not logged in.
LOGIN_PAGES = {"login": "/accounts/login/", "sign-up": "/accounts/signup/"}
OWN = {
    "profile": "/accounts/profile/",
    "sessions": "/accounts/sessions/",
    "own-data": "/accounts/data/",
    "password": "/accounts/password/change/",
    "email": "/accounts/email/",
    "second-factor": "/accounts/2fa/",
    "confirm-identity": "/accounts/reauthenticate/",
    "logout": "/accounts/logout/",
    "styleguide": "/styleguide",
    "run-again-gone": f"/share/{'x' * 22}/run",
}
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs-none": "/jobs?status=timed_out",
    "job-new": "/jobs/new",
    "history": "/history",
    "history-none": "/history?character=Nobody",
    "clients": "/clients",
    "credits": "/credits",
    "credits-notice": "/credits/notice",
    "usage": "/usage",
    "usage-by-client": "/usage?by=client",
    "usage-by-build": "/usage?by=build",
    "people": "/people",
    "leave": "/people/leave",
    "data": "/data",
    "audit": "/audit",
    "audit-none": "/audit?by=0",
}
ADMIN = {
    "admin": "/admin/",
    "admin-jobs": "/admin/jobs/job/",
    "admin-accounts": "/admin/console/accounts/",
    "admin-account": "/admin/console/accounts/1/",
    "admin-builds": "/admin/console/builds/",
    "admin-capacity": "/admin/console/capacity/",
    "admin-lane": "/admin/console/capacity/lanes/standard/",
    "admin-webhooks": "/admin/console/webhooks/",
    "admin-search": "/admin/search/",
    "admin-records": "/admin/records/",
}
DJANGO_ADMIN = {
    "admin-events": "/admin/webhooks/event/",
    "admin-plan": "/admin/billing/plan/1/change/",
    "admin-user": "/admin/auth/user/1/change/",
}


def prepare(stack: Stack, visitor: Visitor, receiver: Receiver) -> SiteData:
    """Create the data as a visitor who is logged in as owner of the demo account."""
    pair = stack.submit(FEW), stack.submit(OTHER)
    for job in pair:
        stack.wait_for_end(job)
    jobs = {
        "stages": stack.submit(
            STAGES, runtime={"multiStage": True}, artifacts={"html": True, "csv": True}, **NOTES
        ),
        "actors": stack.submit(ACTORS),
        "failed": stack.submit(FAILS),
        "hidden": stack.submit(FEW, artifacts={"hideInputs": True}),
    }
    clients = {"default": find_client(visitor, "default")}
    clients |= {name: make_client(visitor, name) for name in ("new-bot", "forgotten-bot", "guild-bot")}
    visitor.reveal("New key")
    visitor.fill(name="laptop", addresses="203.0.113.7, 2001:db8:aaaa:bbbb::/64")
    visitor.press("Create key")
    visitor.follow("guild-bot")
    key = str(visitor.page.locator("tbody th a").first.get_attribute("href"))
    event = make_deliveries(visitor, receiver, clients["guild-bot"])
    with psycopg.connect(stack.ready["databaseUrl"]) as connection:
        connection.execute(JOINED, [MEMBER])
        connection.execute(HISTORY)
        connection.execute(FAILING)
    for job in jobs.values():
        stack.wait_for_end(job, seconds=300)
    jobs["running"] = stack.submit(RANKED)
    stack.wait(jobs["running"], lambda _: finished_variants(stack, jobs["running"]) >= WATCHED, seconds=120)
    stack.pause_when_running(jobs["running"])
    jobs["waiting"] = stack.submit()
    return SiteData(stack, jobs, clients, key, event, pair)


NOTES = {"metadata": {"character": "Frosty", "raid": "Liberation of Undermine"}}


def finished_variants(stack: Stack, job: str) -> int:
    """Return how many variants of a running job have finished."""
    preview = stack.call("GET", f"jobs/{job}/status?include=preview")["preview"]
    return int(preview["profilesets"]["finished"]) if preview else 0


def find_client(visitor: Visitor, name: str) -> str:
    visitor.open(f"{ACCOUNT}/clients")
    return str(visitor.page.get_by_role("link", name=name, exact=True).get_attribute("href"))


def make_client(visitor: Visitor, name: str) -> str:
    visitor.open(f"{ACCOUNT}/clients")
    visitor.reveal("New client")
    visitor.fill(name=name)
    visitor.press("Create client")
    return visitor.page.url.removeprefix(visitor.site)


def make_deliveries(visitor: Visitor, receiver: Receiver, client: str) -> str:
    """Enable a webhook and send events, one of which fails; return the failed one's page."""
    visitor.open(f"{client}/webhook")
    visitor.fill(url=receiver.url("/410"))
    visitor.press("Enable webhook")
    event = send_test(visitor, client, "410 after")
    visitor.open(f"{client}/webhook/url")
    visitor.fill(url=receiver.url())
    visitor.press("Save URL")
    for _ in range(2):
        send_test(visitor, client, "200 after")
    return event


def send_test(visitor: Visitor, client: str, expected: str) -> str:
    """Send a test event and wait for its delivery; return its page."""
    visitor.open(f"{client}/webhook")
    visitor.press("Send test event")
    visitor.eventually(expected)
    return visitor.page.url.removeprefix(visitor.site)
