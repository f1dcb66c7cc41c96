"""Add the upgrades of a report to a loot sheet, a CSV file with a line for each player and profileset.

Needs Python and `requests`. Downloads a report again only if it has changed.

    python loot_sheet.py loot.csv https://sim.example.com/share/q7VvT0m1xk2bY9d4sLwJ3A …
"""

import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

COLUMNS = ["link", "player", "date", "set", "gain"]


def harmless(text: str) -> str:
    """Return a name, which anyone can choose, in one line that no spreadsheet takes for a formula."""
    line = " ".join(text.split())
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line


def rows_of(link: str, report: dict[str, Any]) -> list[list[Any]]:
    """Return a row for each profileset that increases DPS, best first, or one row without a set if none does."""
    player = report["sim"]["players"][0]
    baseline = player["collected_data"].get("dps", {}).get("mean", 0)
    date = datetime.fromtimestamp(report["simbot"]["date"] / 1000, UTC).date().isoformat()
    # A job that was stopped early may not have simulated the baseline, without which no gain is known.
    results = report["sim"].get("profilesets", {}).get("results", []) if baseline else []
    gains = sorted(((each["mean"] - baseline, each["name"]) for each in results), reverse=True)
    upgrades = [(round(gain), harmless(name)) for gain, name in gains if gain > 0] or [(0, "")]
    return [[link, harmless(player["name"]), date, name, gain] for gain, name in upgrades]


def main() -> None:
    sheet, *links = sys.argv[1:]
    path, tags_path = Path(sheet), Path(f"{sheet}.etags.json")
    tags = json.loads(tags_path.read_text()) if tags_path.exists() else {}
    rows: list[list[Any]] = list(csv.reader(path.read_text().splitlines()))[1:] if path.exists() else []
    for link in links:
        response = requests.get(f"{link}/data.json", headers={"If-None-Match": tags.get(link, "")}, timeout=60)
        if response.status_code == 304:
            print(f"{link}: unchanged")
            continue
        response.raise_for_status()
        tags[link] = response.headers["ETag"]
        found = rows_of(link, response.json())
        rows = [row for row in rows if row[0] != link] + found
        print(f"{link}: {len(found)} rows")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    tags_path.write_text(json.dumps(tags))


if __name__ == "__main__":
    main()
