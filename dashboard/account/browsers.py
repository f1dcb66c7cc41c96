"""Names of browsers and systems in user agents, which are untrusted."""

# What a user agent contains, with the name to show. Browsers name those that they imitate, so the order matters.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
MAX_SHOWN = 60


def browser_in(user_agent: str) -> str:
    """Return a name such as "Chrome on Linux"; the beginning of the user agent if its browser is unknown."""
    browser = next((name for part, name in BROWSERS if part in user_agent), "")
    system = next((name for part, name in SYSTEMS if part in user_agent), "")
    if not browser:
        return user_agent[:MAX_SHOWN].strip() or "Unknown browser"
    return f"{browser} on {system}" if system else browser
