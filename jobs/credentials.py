"""Game credentials that came along with a job (specification, Resources; design, section 7)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class GameCredentials:
    """A client of the game platform's API, for one job only."""

    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
