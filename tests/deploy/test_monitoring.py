"""The alert rules, the dashboard and the runbook agree with each other and with the service's metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from simservice import worker_heartbeats
from simservice.telemetry.metrics import REGISTRY, SERVICE

ROOT = Path(settings.BASE_DIR)
ALERTS_FILE = ROOT / "deploy" / "prometheus" / "alerts.yaml"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS_FILE.read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "simservice.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SCALING, _ = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "autoscaling.yaml").read_text())
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]},
    "autoscaling": SCALING["spec"]["triggers"][-1]["metadata"]["query"],
}
METRIC = re.compile(r"\b(?:simservice|process)_\w+")
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


@pytest.fixture
def exported(db: None) -> set[str]:
    """The names of all series that the service reports."""
    worker_heartbeats.report("sim@here", slots=1)
    families = [family for registry in (REGISTRY, SERVICE) for family in registry.collect()]
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
    return {family.name + suffix for family in families for suffix in suffixes.get(family.type, ("",))}


def promtool(*arguments: str | Path) -> None:
    """Run promtool, which must succeed."""
    done = subprocess.run(["promtool", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_files_of_prometheus_are_valid() -> None:
    promtool("check", "rules", ALERTS_FILE)
    promtool("check", "config", "--syntax-only", "deploy/prometheus/prometheus.yaml")


@needs_promtool
def test_the_example_for_kubernetes_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall("```yaml\n(.*?)```", (ROOT / "docs" / "how-to" / "observe.md").read_text(), re.DOTALL)
    (scrape,) = yaml.safe_load(example)["scrape_configs"]
    # Debian's promtool does not support Kubernetes.
    assert scrape.pop("kubernetes_sd_configs") == [{"role": "pod", "namespaces": {"names": ["simservice"]}}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
    promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yaml")
    assert scrape["job_name"] == "simservice"  # the alerts select it


@needs_promtool
def test_alerts_fire_when_something_is_wrong() -> None:
    promtool("test", "rules", "tests/deploy/alert_tests.yaml")


@needs_promtool
def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    texts = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "1m")}
        for number, text in enumerate(texts)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", "--lint=none", file)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_is_one_that_the_service_reports(name: str, exported: set[str]) -> None:
    used = set(METRIC.findall(EXPRESSIONS[name]))
    assert used or "up{" in EXPRESSIONS[name]
    assert used <= exported


def test_every_metric_is_documented(exported: set[str]) -> None:
    text = (ROOT / "docs" / "how-to" / "observe.md").read_text()
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in exported if name.startswith("simservice")}
    assert {name for name in names if f"`{name}`" not in text} == set()
    assert set(re.findall(r"`(simservice_\w+)`", text)) <= names


def test_every_alert_has_an_entry_in_the_runbook() -> None:
    entries = re.findall("^## (.+)$", (ROOT / "docs" / "how-to" / "runbook.md").read_text(), re.MULTILINE)
    for rule in ALERTS:
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
    assert entries == [rule["alert"] for rule in ALERTS]


def test_every_alert_is_tested() -> None:
    tests = (ROOT / "tests" / "deploy" / "alert_tests.yaml").read_text()
    assert {rule["alert"] for rule in ALERTS} <= set(re.findall(r"Simservice\w+", tests))


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
