"""Meanings of responses and certificates of receivers, with what to do (`docs/reference/webhooks.md`)."""

from urllib.parse import urljoin

from webhooks.models import Delivery

REDIRECT = "Configure the final URL; redirects are not followed."
BY_STATUS = {
    304: "The receiver responded as if the request were for a cached page. It must respond with a 2xx status.",
    401: "The receiver requires a login. Accept requests without one, and verify their signature instead.",
    403: "A firewall or bot protection probably refused the request. Let it allow POST requests to this URL.",
    404: "The receiver has nothing at this URL. Check the path.",
    405: "The receiver does not accept POST requests at this URL. Check the path, and allow POST.",
    410: "The receiver says that this URL is gone for good. Configure the new URL, or disable the webhook.",
}
# By the verification codes of OpenSSL (`X509_V_ERR_…`)
INCOMPLETE_CHAIN = (
    "The receiver sends an incomplete certificate chain, or the certificate authority is not public. "
    "Install the intermediate certificate on the receiver."
)
BY_CERTIFICATE = {
    9: "The certificate is not valid yet. Check the clock of the machine that issued it.",
    10: "The certificate has expired. Renew it, and restart the receiver.",
    18: "The certificate is self-signed. Install one from a public authority.",
    19: "The certificate authority is not public. Install a certificate from a public one.",
    20: INCOMPLETE_CHAIN,
    21: INCOMPLETE_CHAIN,
    62: "Install a certificate that includes the host name of the webhook's URL.",
    64: "Install a certificate that includes the IP address, or use a host name in the webhook's URL.",
}
MISMATCHES = (62, 64)
"""Of these, OpenSSL's reason contains the name or address."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_TARGET = 200


def on_status(status: int | None) -> str:
    """Return what an unsuccessful status means and what to do, or an empty string if that is not known."""
    if status is None:
        return ""
    return BY_STATUS.get(status) or (REDIRECT if 300 <= status < 400 else "")


def on_tls(code: int | None, reason: str) -> str:
    """Return what is wrong with TLS and what to do, by the verification code if a certificate is the problem.

    `reason` is OpenSSL's, without a full stop.
    """
    advice = BY_CERTIFICATE.get(code, "") if code is not None else ""
    if advice and code not in MISMATCHES:
        return advice
    return f"{reason[:1].upper()}{reason[1:]}. {advice}".strip()


def redirect_detail(status: int | None, url: str, location: str) -> str:
    """Return where a response redirects to as a sentence without a full stop, or an empty string."""
    target = redirect_target(url, location) if status in REDIRECTS else ""
    return f"Redirects to {target}" if target else ""


def redirect_target(url: str, location: str) -> str:
    """Return where a redirect leads, as one printable line, shortened; empty if it does not say so."""
    if not location:
        return ""
    try:
        target = urljoin(url, location)
    except ValueError:
        target = location
    shown = "".join(character for character in target if character.isprintable())
    return shown if len(shown) <= MAX_TARGET else f"{shown[:MAX_TARGET]}…"


def on_delivery(delivery: Delivery) -> str:
    """Return the advice on an attempt's response; empty after a problem, whose detail contains it."""
    return "" if delivery.problem else on_status(delivery.status)
