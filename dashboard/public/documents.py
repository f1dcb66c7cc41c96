"""The Markdown files in docs that are pages of the site. Browser tests read this without Django."""

INDEX = "use-the-api"
FILES = {
    INDEX: "how-to/use-the-api.md",
    "tutorial": "tutorial/first-result.md",
    "compare-trinkets": "how-to/compare-trinkets.md",
    "nightly-regression": "how-to/nightly-regression.md",
    "discord-bot": "how-to/discord-bot.md",
    "backfill": "how-to/backfill.md",
    "read-reports": "how-to/read-reports.md",
    "use-existing-tools": "how-to/use-existing-tools.md",
}
REFERENCE = {
    name: f"reference/{name}.md" for name in ("api", "profiles", "webhooks", "errors", "limits", "mcp", "stability")
}
