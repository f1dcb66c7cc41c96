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

ROOT = Path(settings.BASE_DIR)
DEPLOY = ROOT / "deploy"
SIMC = "deploy/build-simulationcraft"
CADDY = Path(sys.executable).with_name("caddy")
PROCESSES = set(parse_procfile((ROOT / "Procfile").read_text()).processes)
SETTINGS = set(re.findall(r"^#?([A-Z][A-Z0-9_]*)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"].startswith("simservice")}
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
    local = {"localstack", "tests", "bench", "sdk", "deploy"}
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


def test_compose_builds_where_sim_runs_builds() -> None:
    builds, sim = OURS["builds"], OURS["sim"]
    assert (builds["profiles"], builds["build"]["target"]) == (["builds"], "simc")
    assert "builds:/opt/simc" in builds["volumes"]
    assert "builds:/opt/simc:ro" in sim["volumes"]
    # It runs each build in the sandbox.
    assert builds["security_opt"] == sim["security_opt"]


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


def test_only_the_proxy_has_open_ports() -> None:
    assert {name for name, service in COMPOSE["services"].items() if "ports" in service} == {"proxy"}


def test_settings_in_compose_exist() -> None:
    for service in OURS.values():
        assert set(service["environment"]) <= SETTINGS
    example = (DEPLOY / "env.example").read_text()
    given = set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE))
    used = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert given == used


def test_images_have_a_version() -> None:
    images = [service["image"] for name, service in COMPOSE["services"].items() if name not in OURS]
    assert all(re.fullmatch(r"[\w/.-]+:[0-9][\w.-]*", image) for image in images), images


def test_the_configuration_of_caddy_is_valid(tmp_path: Path) -> None:
    values = {"DOMAIN": "sim.example.org", "ACME_EMAIL": "a@example.org", "HOME": str(tmp_path)}
    command = [str(CADDY), "validate", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
    done = subprocess.run(command, env=os.environ | values, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"level":"warn"' not in done.stderr
    formatted = subprocess.run([CADDY, "fmt", DEPLOY / "Caddyfile"], capture_output=True, text=True, check=False)
    assert formatted.stdout == (DEPLOY / "Caddyfile").read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:
        text = each.read_text().replace("/opt/simservice/current", str(ROOT))
        # systemd before 254 ignores it.
        (tmp_path / each.name).write_text(text.replace("DelegateSubgroup=worker\n", ""))
    check("systemd-analyze", "verify", "--man=no", tmp_path / unit.name)


def test_units_start_every_process() -> None:
    commands = "\n".join(unit.read_text() for unit in UNITS)
    assert set(re.findall(r"entrypoint (\S+)$", commands, re.MULTILINE)) == {"%i", "sim", SIMC}


# They mount over parts of /proc, or make control groups read-only.
FORBIDDEN = {
    *("ProtectHostname", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset", "PrivatePIDs"),
    *("ProtectControlGroups", "InaccessiblePaths", "ReadOnlyPaths"),
}


def test_the_unit_of_sim_leaves_proc_to_the_sandbox() -> None:
    text = (DEPLOY / "systemd" / "simservice-sim.service").read_text()
    assert set(re.findall(r"^(\w+)=", text, re.MULTILINE)) & FORBIDDEN == set()


def test_the_wrapper_of_manage_has_what_the_unit_has(tmp_path: Path) -> None:
    """In place of systemd, a script shows the unit, and another prints its arguments."""
    unit = DEPLOY / "systemd" / "simservice-sim.service"
    for name, line in (("systemctl", f"cat {unit}"), ("systemd-run", "printf '%s\\n' \"$@\"")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(DEPLOY / "manage"), "grantcredits", "a b"]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    given = set(re.findall(r"^--property=(\w+)=", "\n".join(lines), re.MULTILINE))
    assert given >= {"User", "EnvironmentFile", "Environment", "NoNewPrivileges", "Delegate", "DelegateSubgroup"}
    assert not given & {"ExecStart", "Restart", "WantedBy", "Description"}
    assert lines[-2:] == ["grantcredits", "a b"]


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


def test_settings_in_manifests_exist() -> None:
    (values,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    names = {variable["name"] for pod in pods() for variable in pod["containers"][0].get("env", [])}
    assert {*values, *names} <= SETTINGS


def test_manifests_are_listed() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in (DEPLOY / "kubernetes").iterdir()}
    assert {*listed, "kustomization.yaml", "autoscaling.yaml"} == files
