"""Handwritten schemas of summaries and artifacts."""

from tests.jobs.api.contract.types import (
    BOOLEAN,
    COUNT,
    DOWNLOAD,
    LABEL,
    NULL,
    NUMBER,
    PERCENT,
    POSITIVE,
    TEXT,
    TRUE,
    Schema,
    an_object,
    many,
    matching,
    one_of,
    or_null,
)

FIGURES = dict.fromkeys(("mean", "mean_error", "mean_stddev", "stddev", "min", "max"), NUMBER)
RANKED = an_object({"name": TEXT} | FIGURES)
ITEM_NUMBERS = {
    "ilevel": COUNT,
    "bonusIds": many(COUNT),
    "gemIds": many(COUNT),
    "enchantId": COUNT,
    "craftedStatIds": many(COUNT),
}
ITEM = an_object({"slot": TEXT, "name": TEXT}, id=COUNT, **ITEM_NUMBERS)
IDENTIFIED_ITEM = an_object({"slot": TEXT, "name": TEXT, "id": COUNT}, **ITEM_NUMBERS)
MAIN_ACTOR = an_object(
    {"name": TEXT} | FIGURES,
    profilesets=an_object(
        {"count": COUNT, "results": many(an_object({"name": TEXT, "stage": POSITIVE} | FIGURES), 200)}
    ),
    talents=TEXT,
    gear=many(ITEM),
)
MULTI_STAGE = an_object(
    {
        "enabled": BOOLEAN,
        "reason": one_of(
            "eligible_profileset_only",
            "disabled_by_option",
            "no_variants_in_input",
            "no_profileset_candidates",
            "below_min_candidates",
            "unsupported_copy_set_only",
            "unsupported_mixed_profileset_copy_set",
            "unsupported_multi_actor",
            "unsupported_stage_sensitive_directive",
        ),
        "stages": many(
            an_object({"stage": POSITIVE, "label": LABEL, "profilesets": COUNT, "culled": COUNT}),
            3,
        ),
    },
    widening={"type": "number", "minimum": 1},
)
SUMMARY = or_null(
    an_object(
        {"metric": one_of("dps", "raid_dps"), "mainActor": or_null(MAIN_ACTOR), "multiStage": MULTI_STAGE},
        talents=TEXT,
        gear=many(IDENTIFIED_ITEM) | {"minItems": 1},
        actors=an_object({"count": COUNT, "results": many(RANKED, 200)}),
        iterations=COUNT,
        additional_fights=COUNT,
        partial=TRUE,
        not_reached=an_object({"actors": COUNT, "profilesets": COUNT}),
        warnings=many({"type": "string", "minLength": 1, "maxLength": 500}, 20)
        | {"minItems": 1, "uniqueItems": True},
    )
)

VERDICT = or_null(
    an_object(
        {
            "kind": one_of(
                "best",
                "upgrade",
                "tied",
                "none_better",
                "no_variants",
                "best_actor",
                "tied_actors",
                "unknown",
            ),
            "names": many({"type": "string"}, 10),
            "count": COUNT,
            "change": or_null(NUMBER),
            "margin": or_null(NUMBER),
            "factor": {"type": "number", "minimum": 1},
            "text": {"type": "string"},
        }
    )
)

AMOUNT = {"type": "number", "minimum": 0}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
SHORT = {"type": "string", "minLength": 1, "maxLength": 300}
NUMBERS = {"type": "object", "additionalProperties": NUMBER, "minProperties": 1, "maxProperties": 100}
ABILITY: Schema = an_object(
    {"share": SHARE},
    **dict.fromkeys(("dps", "executes", "hits", "average", "critPercent"), AMOUNT),
    **dict.fromkeys(("name", "school"), SHORT),
    id=POSITIVE,
    pet=TRUE,
)
ABILITY = ABILITY | {"properties": ABILITY["properties"] | {"children": many(ABILITY, 200)}}
BUFF = an_object({"uptime": PERCENT, "debuff": BOOLEAN}, name=SHORT, id=POSITIVE, count=AMOUNT)
WEIGHTS = an_object(
    {
        "metric": SHORT,
        "normalized": BOOLEAN,
        "stats": many(an_object({"stat": SHORT, "name": SHORT, "weight": NUMBER}, error=AMOUNT, delta=NUMBER), 50),
    },
    pawn=SHORT | {"maxLength": 1000},
)
PLOT = an_object(
    {
        "stat": SHORT,
        "name": SHORT,
        "points": many(an_object({"change": NUMBER, "dps": AMOUNT}, error=AMOUNT), 201),
    }
)
ACTOR_DETAILS = an_object(
    {},
    **dict.fromkeys(("name", "class", "specialization", "race", "role"), SHORT),
    level=POSITIVE,
    dps=an_object({}, **dict.fromkeys(("mean", "error", "stddev", "min", "median", "max"), AMOUNT)),
    fightLength=an_object({}, **dict.fromkeys(("mean", "min", "max"), AMOUNT)),
    abilities=many(ABILITY, 200),
    buffs=many(BUFF, 200),
    damage=an_object({"step": POSITIVE, "values": many(AMOUNT, 600)}),
    resources=many(an_object({"name": SHORT}, gained=AMOUNT, lost=NUMBER, overflowed=NUMBER, end=NUMBER), 100),
    stats=an_object({}, **dict.fromkeys(("attribute", "resources", "stats"), NUMBERS)),
    gear=many(ITEM),
    talents=SHORT | {"maxLength": 2000},
    weights=WEIGHTS,
    plots=many(PLOT, 50),
)
FIGHT = an_object(
    {},
    **dict.fromkeys(("style", "gameVersion"), SHORT),
    **dict.fromkeys(("targets", "iterations"), POSITIVE),
    **dict.fromkeys(("length", "targetError"), AMOUNT),
    variation=SHARE,
)
DETAILS = or_null(an_object({"version": {"const": 1}, "fight": FIGHT, "actors": many(ACTOR_DETAILS, 50)}))

FILES = (
    ("json_report", "report.json", "application/json"),
    ("html_report", "report.html", "text/html"),
    ("csv_report", "result.csv", "text/csv"),
    ("input", "input.simc", "text/plain"),
    ("stdout_log", "stdout.log", "text/plain"),
    ("stderr_log", "stderr.log", "text/plain"),
)


def artifact(**further: Schema) -> Schema:
    """Return the schema of an artifact. The kind determines its media type; kind and stage determine its name."""
    common = {"url": DOWNLOAD, "bytes": COUNT} | further
    kinds = []
    for kind, name, media_type in FILES:
        same = common | {"kind": {"const": kind}, "mimeType": {"const": media_type}}
        kinds.append(an_object(same | {"name": {"const": name}, "stage": NULL}))
        staged = {"name": matching("stage-[1-3]-" + name.replace(".", r"\.")), "stage": POSITIVE}
        kinds.append(an_object(same | staged))
    return {"oneOf": kinds}


MISSING_ARTIFACT = an_object(
    {
        "kind": one_of(*(kind for kind, _, _ in FILES)),
        "name": matching("(stage-[1-3]-)?(" + "|".join(name.replace(".", r"\.") for _, name, _ in FILES) + ")"),
        "stage": or_null(POSITIVE),
        "reason": matching(".+"),
    }
)
