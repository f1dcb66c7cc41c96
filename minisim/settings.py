"""Options of the whole run (`docs/reference/simulator-command-line.md#options-to-control`)."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from minisim.values import SimulatorError, names_in, to_bool, to_float, to_int, to_uint64

MAX_FIGHT_SECONDS = 86_400
REPORT_V2 = "2.0.0"
REPORT_V3 = "3.0.0-alpha1"
DEFAULT_ITERATIONS = 1_000_000
DEFAULT_TARGET_ERROR, SCALE_FACTORS_TARGET_ERROR = 0.2, 0.05
DETERMINISTIC_SEED = 31_459
INVALID_FIGHT_STYLE_STATUS = 11  # The exit status of versions since September 2025.

FIGHT_STYLES = {
    # name in lower case: (name in reports, share of the fight spent attacking, targets)
    "none": ("None", 1.0, 1),
    "patchwerk": ("Patchwerk", 1.0, 1),
    "castingpatchwerk": ("CastingPatchwerk", 0.99, 1),
    "lightmovement": ("LightMovement", 0.94, 1),
    "heavymovement": ("HeavyMovement", 0.83, 1),
    "hecticaddcleave": ("HecticAddCleave", 0.85, 3),
    "helterskelter": ("HelterSkelter", 0.75, 1),
    "cleaveadd": ("CleaveAdd", 0.97, 2),
    "dungeonslice": ("DungeonSlice", 0.85, 4),
    "dungeonroute": ("DungeonRoute", 0.8, 5),
    "beastlord": ("Beastlord", 0.85, 4),
    "ultraxion": ("Ultraxion", 1.0, 1),
}
METRICS = {
    "dps": "Damage per Second",
    "prioritydps": "Damage per Second to Priority Target/Boss",
    "dpse": "Damage per Second (effective)",
    "hps": "Healing per Second",
    "hpse": "Healing per Second (effective)",
    "aps": "Absorb per Second",
    "haps": "Healing/Absorb per Second",
    "dtps": "Damage Taken per Second",
    "dmg_taken": "Damage Taken",
    "htps": "Healing Taken per Second",
    "deaths": "Deaths",
    "time": "Fight Length",
    "raid_dps": "Raid Damage per Second",
}
# Options of the real simulator that this model ignores without a warning.
IGNORED = names_in(
    """
    average_gauss average_range channel_lag cleanup_threads debug debug_each decorated_tooltips
    default_aura_delay default_region
    default_server default_skill default_world_lag enemy_death_pct gcd_lag healing hosted_html item_db_source log
    max_aoe_enemies maximize_reporting optimal_raid optimize_expressions party process_priority
    profileset_init_threads
    profileset_multiactor_base_name profileset_output_data profileset_work_threads
    proxy ptr queue_lag raid_events raid_events+ reforge_plot_output_file report_details report_pets_separately
    report_precision report_progress report_raid_summary report_rng report_targets save_profiles
    save_raid_summary single_actor_batch statistics_level strict_gcd_queue
    strict_work_queue target_error_role target_level target_level+ target_race timewalk travel_variance
    """
)


@dataclass(frozen=True, slots=True)
class JsonTarget:
    """One file requested by `json=` or `json2=`."""

    path: str
    report_version: str
    pretty_print: bool = False


@dataclass(slots=True)
class Settings:
    """Settings with the simulator's defaults. The target error is in percent of the mean, times are in seconds."""

    iterations: int = 0
    target_error: float = 0.0
    max_time: float = 300.0
    vary_combat_length: float = 0.2
    fixed_time: bool = True
    seed: int = 0
    deterministic: bool = False
    threads: int = 0
    analyze_error_interval: int = 100
    confidence: float = 0.95
    fight_style: str = "patchwerk"
    desired_targets: int = 1
    profileset_metric: str = "dps"
    profileset_main_actor_index: int = 0
    profileset_report_player_index: int = 0
    calculate_scale_factors: bool = False
    scale_only: str = ""
    center_scale_delta: bool = False
    scale_delta_multiplier: float = 1.0
    dps_plot_stat: str = ""
    dps_plot_points: int = 20
    dps_plot_step: float = 160.0
    dps_plot_positive: bool = False
    dps_plot_negative: bool = False
    dps_plot_iterations: int = -1
    dps_plot_target_error: float = 0.0
    display_build: int = 1
    strict_parsing: bool = False
    progressbar_type: int = 0
    html: str = ""
    output: str = ""
    json: tuple[JsonTarget, ...] = field(default=())

    def apply(self, name: str, value: str) -> bool:
        """Apply one option; return False if there is no such option. Raises SimulatorError for an invalid value."""
        if name in _CONVERTERS:
            setattr(self, name, _CONVERTERS[name](value))
        elif name in {"json", "json2"}:
            self.json = (*self.json, _json_target(name, value))
        else:
            return name in IGNORED or name.startswith("override.")
        return True

    def completed(self) -> "Settings":
        """Return a copy that includes defaults which depend on other settings. Raises SimulatorError."""
        settings = replace(self)
        if settings.iterations <= 0:
            settings.iterations = DEFAULT_ITERATIONS
            default = SCALE_FACTORS_TARGET_ERROR if settings.calculate_scale_factors else DEFAULT_TARGET_ERROR
            settings.target_error = settings.target_error or default
        if settings.deterministic and settings.target_error > 0:
            raise SimulatorError("deterministic=1 cannot be used with non-zero target_error values!")
        if settings.threads <= 0:
            settings.threads = os.cpu_count() or 1
        if not settings.seed:
            settings.seed = DETERMINISTIC_SEED if settings.deterministic else secrets.randbits(63)
        return settings

    @property
    def confidence_estimator(self) -> float:
        """Return half the width of the confidence interval in standard errors: 1.96 for a `confidence` of 0.95."""
        return NormalDist().inv_cdf(0.5 + self.confidence / 2)

    @property
    def primary_metric(self) -> str:
        """Return the metric that profilesets are ranked by."""
        return self.profileset_metric.partition("/")[0]


def _within(low: float, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        number = to_float(text)
        if not low <= number <= high:
            raise SimulatorError(f"Not within valid boundaries [{low}..{high}]")
        return number

    return convert


def _at_least_one(text: str) -> int:
    return max(1, to_int(text))


def _fight_style(text: str) -> str:
    if text.lower() not in FIGHT_STYLES:
        raise SimulatorError(f"Invalid fight style '{text}'", status=INVALID_FIGHT_STYLE_STATUS)
    return text.lower()


def _metrics(text: str) -> str:
    metrics = [part.lower() for part in text.replace(":", "/").replace(",", "/").split("/") if part]
    for metric in metrics:
        if metric not in METRICS:
            raise SimulatorError(f"Invalid profileset metric '{metric}'")
    return "/".join(metrics) or "dps"


def _json_target(name: str, value: str) -> JsonTarget:
    path, *extras = value.split(",")
    parameters = dict(extra.split("=", 1) for extra in extras if extra.count("=") == 1)
    default = REPORT_V2 if name == "json2" else REPORT_V3
    version = parameters.get("version", default)
    # Only the exact name selects version 3; some ranges select 2.0.0.
    if version.lstrip("^~") in {"2", "2.0", "2.0.0", "2.x", "2.0.x", "*"}:
        version = REPORT_V2
    elif version != REPORT_V3:
        raise SimulatorError(f"Cannot find JSON report version satisfying '{version}'")
    return JsonTarget(path, version, pretty_print=to_int(parameters.get("pretty_print", "")) != 0)


_CONVERTERS: dict[str, Callable[[str], object]] = {
    "iterations": to_int,
    "target_error": _within(0, 100),
    "max_time": _within(1, MAX_FIGHT_SECONDS),
    "vary_combat_length": _within(0, 1),
    "fixed_time": to_bool,
    "seed": to_uint64,
    "deterministic": to_bool,
    "threads": to_int,
    "analyze_error_interval": _at_least_one,
    "confidence": _within(0.01, 0.9999),
    "fight_style": _fight_style,
    "desired_targets": _at_least_one,
    "profileset_metric": _metrics,
    "profileset_main_actor_index": to_int,
    "profileset_report_player_index": to_int,
    "calculate_scale_factors": to_bool,
    "scale_only": str,
    "center_scale_delta": to_bool,
    "scale_delta_multiplier": to_float,
    "dps_plot_stat": str,
    "dps_plot_points": to_int,
    "dps_plot_step": to_float,
    "dps_plot_positive": to_bool,
    "dps_plot_negative": to_bool,
    "dps_plot_iterations": to_int,
    "dps_plot_target_error": to_float,
    "display_build": to_int,
    "strict_parsing": to_bool,
    "progressbar_type": to_int,
    "html": str,
    "output": str,
}
