"""Print the ranking of a report. Needs only Python.

python ranking.py https://sim.example.com/share/q7VvT0m1xk2bY9d4sLwJ3A
"""

import json
import sys
from typing import Any
from urllib.request import urlopen


def dps_of(player: dict[str, Any]) -> dict[str, float]:
    """Return the figures of an actor. A job that was stopped early may not have simulated it."""
    figures: dict[str, float] = player["collected_data"].get("dps", {"mean": 0})
    return figures


def entries_of(report: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return name, DPS and margin of error of each profileset, or of each actor if there are none, best first."""
    sim = report["sim"]
    results = sim.get("profilesets", {}).get("results", [])
    if results:
        entries = [(each["name"], each["mean"], each.get("mean_error", 0)) for each in results]
    else:
        dps = [(player["name"], dps_of(player)) for player in sim["players"]]
        entries = [(name, each["mean"], 1.96 * each.get("mean_std_dev", 0)) for name, each in dps]
    return sorted(entries, key=lambda entry: -entry[1])


def main() -> None:
    with urlopen(f"{sys.argv[1]}/data.json") as response:  # noqa: S310 - the link is yours
        report = json.load(response)
    about = report["simbot"]
    baseline = dps_of(report["sim"]["players"][0])["mean"]
    print(f"{about['title']} ({about['simType']}, {report['version']})")
    for name, mean, error in entries_of(report):
        gain = f"{mean / baseline - 1:+.2%}" if baseline else ""
        print(f"{mean:12.1f} ± {error:.1f}  {gain}  {name}")


if __name__ == "__main__":
    main()
