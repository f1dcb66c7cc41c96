"""When a request of the library is repeated."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from simservice_client import ServiceUnreachable, UnexpectedResponse
from simservice_client._retries import RetryPolicy, retry_after_of

POLICY = RetryPolicy(retries=3, longest_wait=60)
REFUSED = ServiceUnreachable.after(httpx.ConnectError("refused", request=httpx.Request("GET", "http://a")))
CUT = ServiceUnreachable.after(httpx.ReadError("cut", request=httpx.Request("GET", "http://a")))


def busy(retry_after: float | None) -> UnexpectedResponse:
    return UnexpectedResponse("Busy.", status=503, retry_after=retry_after)


def delays(error: ServiceUnreachable | UnexpectedResponse, *, is_first_contact: bool = False) -> list[float | None]:
    return [POLICY.delay(failures, error, is_first_contact=is_first_contact) for failures in (1, 2, 3, 4)]


def test_delays_double_and_vary() -> None:
    for _ in range(50):
        first, second, third, none = delays(CUT)
        assert none is None
        assert 0.25 <= (first or 0) <= 0.5 <= (second or 0) <= 1 <= (third or 0) <= 2
    assert len({POLICY.delay(1, CUT, is_first_contact=False) for _ in range(9)}) > 1


def test_delays_have_a_limit() -> None:
    policy = RetryPolicy(retries=5000, longest_wait=60)
    assert 15 <= (policy.delay(4000, CUT, is_first_contact=False) or 0) <= 30


def test_a_client_that_never_connected_gives_up_sooner() -> None:
    assert [delay is None for delay in delays(REFUSED, is_first_contact=True)] == [False, False, True, True]
    assert [delay is None for delay in delays(REFUSED)] == [False, False, False, True]
    assert [delay is None for delay in delays(CUT, is_first_contact=True)] == [False, False, False, True]


def test_the_service_chooses_the_delay_up_to_a_limit() -> None:
    assert 7 <= (POLICY.delay(1, busy(7), is_first_contact=False) or 0) <= 7.25
    assert 0.25 <= (POLICY.delay(1, busy(0), is_first_contact=False) or 0) <= 0.5
    assert POLICY.delay(1, busy(61), is_first_contact=False) is None


def test_what_does_not_pass_is_not_repeated() -> None:
    error = UnexpectedResponse("Moved.", status=301, retry_after=1)
    assert POLICY.delay(1, error, is_first_contact=False) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), (" 5 ", 5), ("0", 0), ("-1", None), ("1.5", None), ("٣", None), ("soon", None), ("9" * 10, None)],
)
def test_seconds_of_retry_after(text: str, seconds: float | None) -> None:
    assert retry_after_of({"retry-after": text}) == seconds


@pytest.mark.parametrize(("difference", "seconds"), [(90, 90), (-90, 0)])
def test_dates_of_retry_after_are_compared_with_the_date_of_the_response(difference: int, seconds: int) -> None:
    now = datetime(2001, 1, 1, tzinfo=UTC)
    headers = {"date": format_datetime(now), "retry-after": format_datetime(now + timedelta(seconds=difference))}
    assert retry_after_of(headers) == seconds
    assert retry_after_of({"retry-after": headers["retry-after"]}) is None
