"""The files in `deploy/` are valid, name existing settings and processes, and agree with each other."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.conf import settings
from honcho.environ import parse_procfile

from jobs.enums import Priority
from jobs.queue.announcements import queue_of
from simservice.body_limit import MAX_BODY_BYTES
from tests.docs.guide_runs import blocks_of

ROOT = Path(settings.BASE_DIR)
DEPLOY = ROOT / "deploy"
SIMC = "deploy/build-simulationcraft"
CADDY = Path(sys.executable).with_name("caddy")
PROCESSES = set(parse_procfile((ROOT / "Procfile").read_text()).processes)
SETTINGS = set(re.findall(r"^#?([A-Z][A-Z0-9_]*)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if "env_file" in service}
# Settings that compose.yaml derives from DOMAIN and the passwords, or that its proxy and volumes need
DERIVED = {
    *("DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS", "PUBLIC_BASE_URL", "TRUSTED_PROXIES"),
    *("BIND", "PORT", "DATA_DIR"),
    *("ARTIFACTS_BUCKET", "ARTIFACTS_ENDPOINT_URL", "ARTIFACTS_ACCESS_KEY_ID", "ARTIFACTS_SECRET_ACCESS_KEY"),
}
UNITS = sorted((DEPLOY / "systemd").iterdir())
KUBERNETES_VERSION = "1.33"
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").iterdir())
    if path.name not in ("kustomization.yaml", "autoscaling.yaml")
    for manifest in yaml.safe_load_all(path.read_text())
]


def check(*command: str | Path, **options: Any) -> None:
    """Run a program, which must succeed without output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **options)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_dockerfile_follows_the_rules_of_hadolint() -> None:
    check(Path(sys.executable).with_name("hadolint"), DEPLOY / "Dockerfile")


def test_the_image_has_libcurl_and_no_compiler() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    _, service, simc, default = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    # SimulationCraft is linked with libcurl.
    assert {"ca-certificates", "libcurl4"} <= set(service.split())
    assert "build-essential" not in service
    assert simc.startswith("service AS simc\n")
    assert default == "service\n"


def test_the_image_contains_every_package_of_the_service() -> None:
    copied = set(re.findall(r"^COPY (\w+) /app/", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    local = {"localstack", "minisim", "tests", "bench", "sdk", "deploy"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    folders = {name.partition("/")[0] for name in tracked.splitlines() if "/" in name and name[0] != "."}
    assert copied == folders - local
    sent = set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert sent >= copied | {"deploy", "Procfile"}


def versions(name: str) -> dict[str, str]:
    """Return the version of each package in a file of requirements, by its normalized name."""
    pins = re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)", (ROOT / name).read_text(), re.MULTILINE)
    return {package.lower().replace("_", "-"): version for package, version in pins}


def test_the_lock_has_every_requirement_at_its_version() -> None:
    locked, direct = versions("deploy/requirements.lock"), versions("requirements.txt")
    pinned = versions("constraints.txt") | direct
    assert set(direct) <= set(locked), "run `make lock`"
    assert locked == {name: pinned.get(name) for name in locked}, "run `make lock`"


def test_compose_starts_every_process_and_migrates_first() -> None:
    assert {service["command"][0] for service in OURS.values()} == {*PROCESSES, "python", SIMC}
    for name in PROCESSES:
        assert OURS[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert OURS["web"]["deploy"]["replicas"] == 2


def test_migrations_wait_for_the_database_and_are_repeated() -> None:
    assert "--host" in COMPOSE["services"]["postgres"]["healthcheck"]["test"]
    assert OURS["migrate"]["restart"] == "on-failure:5"


def test_compose_builds_where_sim_runs_builds() -> None:
    builds, sim, simc = OURS["builds"], OURS["sim"], COMPOSE["services"]["simc"]
    for each in (builds, simc):
        assert (each["profiles"], each["build"]["target"]) == (["builds"], "simc")
        assert "builds:/opt/simc" in each["volumes"]
    assert "builds:/opt/simc:ro" in sim["volumes"]
    # It runs each build in the sandbox.
    assert builds["security_opt"] == sim["security_opt"]


def test_the_compilers_have_neither_secrets_nor_the_services_network() -> None:
    simc = COMPOSE["services"]["simc"]
    assert "simc" not in OURS
    assert all(name.startswith("SIMC_") for name in simc["environment"])
    assert (simc["command"], simc["networks"]) == ([SIMC, "build"], ["internet"])
    assert [name for name, each in COMPOSE["services"].items() if "internet" in each.get("networks", [])] == [
        "simc"
    ]
    assert OURS["builds"]["command"] == [SIMC, "register"]
    unit = (DEPLOY / "systemd" / "simservice-simc.service").read_text()
    assert re.findall("^(?:User|EnvironmentFile)=(.+)$", unit, re.MULTILINE) == [
        "simservice-simc",
        "-/etc/simservice/simc.env",
    ]


def test_no_password_is_on_a_command_line() -> None:
    """Except that of rclone, which accepts it nowhere else."""
    commands = {
        name: str([each.get("command"), each.get("entrypoint")]) for name, each in COMPOSE["services"].items()
    }
    assert [name for name, text in commands.items() if re.search(r"(?<!\$)\$\{?\w*PASSWORD", text)] == ["storage"]


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_container_has_only_the_capabilities_it_needs(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    needed = {"postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}, "proxy": {"NET_BIND_SERVICE"}}
    assert set(service.get("cap_add", [])) == needed.get(name, set())


def test_pods_reach_only_what_a_policy_allows() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in MANIFESTS if each["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    chosen = {name: str(spec["podSelector"]) for name, spec in policies.items()}
    assert [name for name, selector in chosen.items() if "simc" in selector] == ["internet"]
    assert [name for name, selector in chosen.items() if "'sim'" in selector] == ["data"]
    open_to_all = [name for name, spec in policies.items() if {} in spec.get("egress", [])]
    assert open_to_all == []


def test_deployments_start_with_expanding_migrations_only() -> None:
    files = [DEPLOY / "compose.yaml", *UNITS, *(DEPLOY / "kubernetes").iterdir()]
    commands = [re.findall(r"manage.py\W+migrate\b.*", path.read_text()) for path in files]
    assert ["--expand" in command for found in commands for command in found] == [True] * 3


def test_services_in_compose_refer_to_each_other() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        for name, options in service.get("depends_on", {}).items():
            awaited = services[name]
            needs_check = options["condition"] == "service_healthy"
            assert not needs_check or "test" in awaited["healthcheck"]
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists()


@pytest.mark.parametrize("name", OURS)
def test_our_containers_are_confined(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_every_container_has_space_for_an_export_and_doctor() -> None:
    assert {service["tmpfs"][0] for service in OURS.values()} == {"/tmp:mode=1777,size=1g"}  # noqa: S108
    assert settings.SIM_DISK_BYTES < 1 << 30


def test_only_the_proxy_has_open_ports() -> None:
    assert {name for name, service in COMPOSE["services"].items() if "ports" in service} == {"proxy"}


def test_every_setting_can_be_set_in_compose() -> None:
    for service in OURS.values():
        assert service["env_file"] == [{"path": ".env", "required": False}]
        fixed = {name for name, value in service["environment"].items() if f"${{{name}" not in value}
        assert fixed == DERIVED


def test_settings_in_compose_exist() -> None:
    given = set(re.findall(r"^#?([A-Z_]+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    used = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert given - SETTINGS == used - SETTINGS
    for service in OURS.values():
        assert set(service["environment"]) <= SETTINGS


def test_containers_stop_20_seconds_after_their_jobs() -> None:
    assert {service["stop_grace_period"] for service in OURS.values()} == {"${STOP_SECONDS:-20}s20000ms"}


@pytest.mark.parametrize("name", ["deploy/.env", "deploy/prometheus/metrics-token", "env"])
def test_files_with_secrets_are_in_no_commit_and_no_image(name: str) -> None:
    check("git", "check-ignore", "--quiet", name)
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    matching = [rule for rule in rules if rule.lstrip("!") in ("*", name, *map(str, Path(name).parents))]
    assert not matching[-1].startswith("!")


def test_the_how_to_names_existing_services_and_volumes() -> None:
    text = (ROOT / "docs" / "how-to" / "deploy-with-compose.md").read_text()
    named = re.findall(r"compose\.yaml (?:exec|run|restart|stop)(?: -\S+)* (\w+)", text)
    assert len(named) > 12
    assert set(named) <= set(COMPOSE["services"])
    assert set(re.findall(r"simservice_(\w+):/", text)) <= set(COMPOSE["volumes"])


@pytest.mark.parametrize("page", ["deploy-with-compose", "deploy-with-systemd", "deploy-on-kubernetes"])
def test_going_back_runs_no_migration(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    (commands,) = re.findall(
        r"^To go back to the previous version.*?```bash\n(.*?)```", text, re.DOTALL | re.MULTILINE
    )
    assert "migrate" not in commands.replace("app!=migrate", "")


def test_redis_saves_nothing() -> None:
    pages = [ROOT / "docs" / "how-to" / f"deploy-{name}.md" for name in ("with-systemd", "on-kubernetes")]
    for text in (COMPOSE["services"]["redis"]["command"][0], *(page.read_text() for page in pages)):
        assert 'save ""' in text


def test_rotations_use_the_names_in_compose() -> None:
    text = (ROOT / "docs" / "how-to" / "rotate-secrets.md").read_text()
    assert set(re.findall(r"\^([A-Z_]+)=", text)) == {"POSTGRES_PASSWORD", "STORAGE_PASSWORD"}
    environment = COMPOSE["services"]["postgres"]["environment"]
    assert f"ALTER ROLE {environment['POSTGRES_USER']} PASSWORD '$password'" in text
    assert f"psql --username {environment['POSTGRES_USER']}\n" in text


@pytest.mark.parametrize("page", ["deploy-with-compose", "rotate-secrets"])
def test_doctor_runs_when_sim_does_not_start(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    commands = re.findall(r"^docker compose .*manage\.py doctor$", text, re.MULTILINE)
    assert commands
    assert all(" run --rm sim " in command for command in commands)


@pytest.mark.parametrize("page", ["deploy-with-compose", "deploy-on-kubernetes"])
def test_each_how_to_creates_the_first_operator(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    for command in ("createsuperuser", "makegroups", "doctor"):
        assert f"manage.py {command}\n" in text


def test_backups_dump_the_database_before_they_copy_the_bucket() -> None:
    text = (ROOT / "docs" / "how-to" / "deploy-with-compose.md").read_text()
    steps = [
        "pg_dump ",
        "copy /buckets/artifacts",
        "stop web sim",
        "pg_restore ",
        "copy /backup/artifacts",
        "verifyledger",
        "privacy_accountdeletion",
    ]
    assert sorted(steps, key=text.index) == steps
    assert "simservice_postgres" not in text


def test_images_have_a_version() -> None:
    images = [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    assert all(re.fullmatch(r"[\w/.-]+:[0-9][\w.-]*", image) for image in images), images


def caddyfile_of_the_how_to() -> str:
    """Return the Caddyfile for a machine with systemd."""
    text = (ROOT / "docs" / "how-to" / "deploy-with-systemd.md").read_text()
    return next(block.text for block in blocks_of(text) if block.file == "Caddyfile")


@pytest.mark.parametrize("source", ["compose", "systemd"])
def test_the_configuration_of_caddy_is_valid(source: str, tmp_path: Path) -> None:
    text = caddyfile_of_the_how_to() if source == "systemd" else (DEPLOY / "Caddyfile").read_text()
    file = tmp_path / "Caddyfile"
    file.write_text(text)
    values = {"DOMAIN": "sim.example.org", "ACME_EMAIL": "a@example.org", "HOME": str(tmp_path)}
    command = [str(CADDY), "validate", "--config", str(file), "--adapter", "caddyfile"]
    done = subprocess.run(command, env=os.environ | values, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"level":"warn"' not in done.stderr
    formatted = subprocess.run([CADDY, "fmt", file], capture_output=True, text=True, check=False)
    assert formatted.stdout == text


def test_the_proxy_finds_replaced_containers_within_seconds() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    refresh, failed, patience = (
        int(re.findall(rf"\b{option} (\d+)s$", text, re.MULTILINE)[0])
        for option in ("refresh", "fail_duration", "lb_try_duration")
    )
    assert refresh + failed < patience


def size(option: str) -> int:
    """Return the bytes of an option of the Caddyfile."""
    number, unit = re.findall(rf"\b{option} (\d+)(KiB|MiB)$", (DEPLOY / "Caddyfile").read_text(), re.MULTILINE)[0]
    return int(number) << {"KiB": 10, "MiB": 20}[unit]


def test_proxies_accept_the_largest_body_and_little_more() -> None:
    assert MAX_BODY_BYTES < size("max_size") < 1.5 * MAX_BODY_BYTES
    public = next(each for each in MANIFESTS if (each["kind"], each["metadata"]["name"]) == ("Ingress", "web"))
    limit = public["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert limit == f"{size('max_size') >> 20}m"
    assert f"max_size {size('max_size') >> 20}MiB\n" in caddyfile_of_the_how_to()


def test_400_slow_clients_fit_into_the_memory_of_the_proxy() -> None:
    limit = int(COMPOSE["services"]["proxy"]["mem_limit"].removesuffix("m")) << 20
    assert 400 * (size("request_buffers") + size("response_buffers")) < limit


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:
        text = each.read_text().replace("/opt/simservice/current", str(ROOT))
        # systemd before 254 ignores it.
        (tmp_path / each.name).write_text(text.replace("DelegateSubgroup=worker\n", ""))
    check("systemd-analyze", "verify", "--man=no", tmp_path / unit.name)


def test_each_unit_can_have_settings_of_its_own() -> None:
    files = {unit.name: re.findall(r"^EnvironmentFile=(\S+)$", unit.read_text(), re.MULTILINE) for unit in UNITS}
    assert {name: values for name, values in files.items() if "/etc/simservice/env" in values} == {
        f"{unit}.service": ["/etc/simservice/env", f"-/etc/simservice/{name}.env"]
        for unit, name in (
            ("simservice@", "%i"),
            ("simservice-sim", "sim"),
            ("simservice-migrate", "migrate"),
            ("simservice-builds", "builds"),
        )
    }


def test_units_start_every_process() -> None:
    commands = "\n".join(unit.read_text() for unit in UNITS)
    assert set(re.findall(r"entrypoint ((?:\S|simulationcraft )+)$", commands, re.MULTILINE)) == {
        "%i",
        "sim",
        f"{SIMC} build",
        f"{SIMC} register",
    }


# They mount over parts of /proc, or make control groups read-only.
FORBIDDEN = {
    *("ProtectHostname", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset", "PrivatePIDs"),
    *("ProtectControlGroups", "InaccessiblePaths", "ReadOnlyPaths"),
}


def test_the_unit_of_sim_leaves_proc_to_the_sandbox() -> None:
    text = (DEPLOY / "systemd" / "simservice-sim.service").read_text()
    assert set(re.findall(r"^(\w+)=", text, re.MULTILINE)) & FORBIDDEN == set()


def arguments_of_manage(folder: Path, *arguments: str) -> list[str]:
    """Run `deploy/manage`. In place of systemd, a script shows the unit, and another prints its arguments."""
    unit = DEPLOY / "systemd" / "simservice-sim.service"
    for name, line in (("systemctl", f"cat {unit}"), ("systemd-run", "printf '%s\\n' \"$@\"")):
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    command = [str(DEPLOY / "manage"), *arguments]
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_manage_has_the_same_restrictions_as_the_unit(tmp_path: Path) -> None:
    lines = arguments_of_manage(tmp_path, "grantcredits", "a b")
    given = set(re.findall(r"^--property=(\w+)=", "\n".join(lines), re.MULTILINE))
    assert given >= {"User", "EnvironmentFile", "Environment", "NoNewPrivileges", "Delegate", "DelegateSubgroup"}
    assert not given & {"ExecStart", "Restart", "WantedBy", "Description"}
    assert lines[-2:] == ["grantcredits", "a b"]


@pytest.mark.parametrize(
    ("command", "names"), [("migrate", ["env", "sim.env", "migrate.env"]), ("doctor", ["env", "sim.env"])]
)
def test_manage_reads_the_settings_of_the_command(command: str, names: list[str], tmp_path: Path) -> None:
    lines = arguments_of_manage(tmp_path, command)
    found = [line.rpartition("/")[2] for line in lines if line.startswith("--property=EnvironmentFile=")]
    assert found == names


def test_a_process_keeps_its_version_when_the_link_moves(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version / "deploy").mkdir(parents=True)
        shutil.copy(DEPLOY / "entrypoint", tmp_path / version / "deploy")
    (tmp_path / "current").symlink_to("1")
    command = [str(tmp_path / "current" / "deploy" / "entrypoint"), "sh", "-c", "pwd; echo $PATH"]
    folder, path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert folder == str(tmp_path / "1")
    assert path.startswith(f"{tmp_path}/1/.venv/bin:")


@pytest.mark.parametrize(
    "manifest", MANIFESTS, ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata']['name']}"
)
def test_manifests_match_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def pods() -> list[dict[str, Any]]:
    return [
        manifest["spec"]["template"]["spec"] for manifest in MANIFESTS if "template" in manifest.get("spec", {})
    ]


def test_every_process_has_a_pod_and_is_confined() -> None:
    assert {pod["containers"][0]["args"][0] for pod in pods()} == {*PROCESSES, "python"}
    for pod in pods():
        security = pod["containers"][0]["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_every_claim_of_a_pod_is_in_a_manifest() -> None:
    claims = {
        each["metadata"]["name"]: each["spec"] for each in MANIFESTS if each["kind"] == "PersistentVolumeClaim"
    }
    volumes = [volume for pod in pods() for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert {volume["persistentVolumeClaim"]["claimName"] for volume in volumes} == set(claims)
    # Pods on all nodes read the builds.
    assert claims["simulationcraft"]["accessModes"] == ["ReadWriteMany"]


def test_settings_in_manifests_exist() -> None:
    (values,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    names = {variable["name"] for pod in pods() for variable in pod["containers"][0].get("env", [])}
    assert {*values, *names} <= SETTINGS


def test_pods_have_time_to_stop() -> None:
    for pod in pods():
        container = pod["containers"][0]
        sleep = int(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0])[-1])
        is_process = container["args"][0] in PROCESSES
        assert not is_process or pod["terminationGracePeriodSeconds"] >= settings.STOP_SECONDS + 20 + sleep


def test_proxies_publish_neither_metrics_nor_readiness() -> None:
    assert "@internal path /metrics /readyz\n\trespond @internal 404" in (DEPLOY / "Caddyfile").read_text()
    (hidden,) = (each for each in MANIFESTS if each["metadata"]["name"] == "web-internal")
    paths = hidden["spec"]["rules"][0]["http"]["paths"]
    assert {(path["path"], path["pathType"]) for path in paths} == {("/metrics", "Exact"), ("/readyz", "Exact")}
    (allowed,) = hidden["metadata"]["annotations"].values()
    assert allowed == "127.0.0.1/32"


def test_the_autoscaler_alone_decides_how_many_workers_run() -> None:
    scaling, _ = yaml.safe_load_all((DEPLOY / "kubernetes" / "autoscaling.yaml").read_text())
    target = scaling["spec"]["scaleTargetRef"]["name"]
    (workers,) = (each for each in MANIFESTS if (each["kind"], each["metadata"]["name"]) == ("Deployment", target))
    assert "replicas" not in workers["spec"]


def test_the_autoscaler_keeps_workers_during_an_outage() -> None:
    scaling, _ = yaml.safe_load_all((DEPLOY / "kubernetes" / "autoscaling.yaml").read_text())
    assert scaling["spec"]["triggers"][-1]["metadata"]["ignoreNullValues"] == "false"
    assert scaling["spec"]["fallback"]["behavior"] == "currentReplicas"


def test_the_autoscaler_reads_the_length_of_each_lane() -> None:
    scaling, access = yaml.safe_load_all((DEPLOY / "kubernetes" / "autoscaling.yaml").read_text())
    lanes = [trigger for trigger in scaling["spec"]["triggers"] if trigger["type"] == "redis"]
    assert [trigger["metadata"]["listName"] for trigger in lanes] == [queue_of(lane) for lane in Priority]
    assert {trigger["authenticationRef"]["name"] for trigger in lanes} == {access["metadata"]["name"]}


def test_deployments_accept_only_their_own_host() -> None:
    (values,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    hosts = {manifest["spec"]["rules"][0]["host"] for manifest in MANIFESTS if manifest["kind"] == "Ingress"}
    assert hosts == {values["ALLOWED_HOSTS"], values["PUBLIC_BASE_URL"].removeprefix("https://")}
    for service in OURS.values():
        assert service["environment"]["ALLOWED_HOSTS"].startswith("${DOMAIN:")


def test_manifests_are_listed() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in (DEPLOY / "kubernetes").iterdir()}
    assert {*listed, "kustomization.yaml", "autoscaling.yaml"} == files
