"""The policy refuses harmful directives in every spelling that the simulator reads, and allows harmless text."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.profiles import policy
from simc.profiles.actors import ITEM_SLOTS
from simc.profiles.analysis import analyse, corrected
from simc.profiles.grammar import decode, tokens
from simc.profiles.mistakes import NOT_A_NAME
from simc.profiles.numbers import Bounds
from simc.profiles.policy import AllowedOption, Refusal, Removal, Rules, names_a_source

BUNDLED = frozenset({"mage.simc"})
# One of each kind that is checked in its own way.
OPTIONS_TO_CHECK = [
    "level=80", "level+=80", "iterations=5", "iterations=5=6", "html=x", "HTML=x", "head=a", "head=a,source=b",
    "head+=a", "armory=a", "input=mage.simc", "mage.simc", "x.simc", "actions+=/x", "profileset.c=d", "=",
]  # fmt: skip

# A copy of the names in the policy's table, so that a name removed from it fails a test.
FORBIDDEN = """
local_json json json2 json3 xml html output debug_seed reforge_plot_output_file spell_query_xml_output_file save
save_gear save_talents save_actions save_profiles save_raid_summary save_prefix save_suffix save_talent_str
save_full_profile tmi_output hosted_html decorated_tooltips

armory guild item_db_source cache_items cache_players http_clear_cache armory_retries default_region default_server
proxy apikey apitoken

threads profileset_work_threads profileset_init_threads process_priority cleanup_threads strict_work_queue

debug debug_each debug_scale_factors log maximize_reporting statistics_level report_rng report_iteration_data
report_strict_iteration_data report_all_variables collect_action_sequence stat_timelines buff_uptime_timeline
buff_stack_uptime_timeline dps_plot_debug reforge_plot_stat reforge_plot_amount reforge_plot_step
reforge_plot_iterations reforge_plot_target_error reforge_plot_debug wheel_seconds wheel_shift wheel_granularity
regen_periodicity

spell_query spell_query_wrap display_build show_bonus_ids show_hotfixes strict_parsing input
""".split()

# HEAD and TAIL are the halves of a name, which is refused on the last line; nothing else is refused.
SPELLINGS = [
    "HEADTAIL=1",
    "HEADTAIL=",
    "HEADTAIL==1",
    '"HEADTAIL=1"',
    '"HEADTAIL"=1',
    'HEAD"TAIL"=1',
    '"HEAD""TAIL"=1',
    'HEAD""TAIL=1',
    'HEADTAIL"="1',
    'HEADTAIL="1',
    'HEADTAIL="1 2"',
    '"HEADTAIL=1',
    '"HEAD" \t TAIL=1',
    '"HEADTAIL" =1',
    '"" HEADTAIL=1',
    "level=80 HEADTAIL=1",
    "level=80 race=orc HEADTAIL=1 role=spell",
    "level=80\tHEADTAIL=1",
    "level=80\rHEADTAIL=1",
    "\r\n \t\rHEADTAIL=1",
    "\ufeffHEADTAIL=1",
    "\ufeff \r\tHEADTAIL=1",
    "# note\n\n\nHEADTAIL=1",
    "# note\r\nHEADTAIL=1\r",
    'name="open\nHEADTAIL=1',
    "race=\x85orc\u2028elf\nname=\x0blevel\n\nHEADTAIL=1",
    'name="#" level\nHEADTAIL=1',
    "HEADTAIL+=1",
    "HEADTAIL+++=1",
    "HEADTAIL=a=b",
    "$(x)=1\nHEADTAIL=$(x)",
    "$(x)=\nHEAD$(x)TAIL=1",
    "$(x)=HEADTAIL\nlevel=80\n\n$(x)=1 HEADTAIL=1",
    "profileset.A=HEADTAIL=1",
    "profileset.A+=HEADTAIL=1",
    "profileset.A+=HEADTAIL+=1",
    '"profileset.A B+=HEADTAIL=1"',
    'profileset."A B"+=HEADTAIL=1',
    'profile"set.A"+="HEADTAIL=1"',
    'profileset."A" +=HEADTAIL=1',
    "level=80\n\tprofileset.A+=level=70 profileset.A+=HEADTAIL=1",
    "profileset.A+=profileset.B+=HEADTAIL=1",
    "profileset.A+=profileset.B+=profileset.C+=HEADTAIL=1",
    "$(x)=1\nprofileset.A+=HEADTAIL=$(x)",
    "$(x)=\nprofileset.A+=HEAD$(x)TAIL=1",
]


def checked(text: str, **rules: Any) -> list[AllowedOption | Removal | Refusal]:
    return list(Rules(bundled=BUNDLED, **rules).check(tokens(text)))


def refused(text: str, **rules: Any) -> list[Refusal]:
    return [option for option in checked(text, **rules) if isinstance(option, Refusal)]


def test_options_are_checked_independently() -> None:
    options = [prefix + option for prefix in ("", "profileset.a+=", "profileset.b=") for option in OPTIONS_TO_CHECK]
    for first, second in product(options, repeat=2):
        assert checked(f"{first}\n{second}") == checked(first) + checked(f"\n{second}"), (first, second)


def test_a_repeated_forbidden_name_is_refused_each_time() -> None:
    for name in FORBIDDEN:
        assert len(refused(f"{name}=1\n{name}=1\nprofileset.a+={name}=1\n" * 2)) == 6


@given(
    st.lists(st.sampled_from(["source", "SOURCE", "so", ",", "=", " ", "\u2003", "\x1f", "x", "İ"]), max_size=12)
)
def test_an_items_source_is_found_in_any_part(pieces: list[str]) -> None:
    item = "".join(pieces)
    names = [part.partition("=")[0].strip().lower() for part in item.split(",")]
    assert names_a_source(item) is ("source" in names)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_forbidden_name_is_refused_in_any_spelling(spelling: str) -> None:
    last = spelling.count("\n") + 1
    for name in FORBIDDEN:
        for written in (name, name.upper(), name.title()):
            text = spelling.replace("HEAD", written[:2]).replace("TAIL", written[2:])
            assert {refusal.line for refusal in refused(text)} == {last}, text


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["thumbnail", "THUMBNAIL", "Thumbnail"])
def test_a_picture_is_removed_in_any_spelling(name: str, spelling: str) -> None:
    text = spelling.replace("HEAD", name[:2]).replace("TAIL", name[2:])
    rules = Rules(bundled=BUNDLED)
    analysis = analyse(text, rules=rules, bounds=Bounds(iterations=9, target_error=1))
    if analysis.refused:
        assert "profileset" in text or "$" in text
        return
    assert {removal.line for removal in analysis.removals} == {spelling.count("\n") + 1}
    run = corrected(text, analysis)
    assert not any(isinstance(option, Removal) for option in checked(run))
    kept = [option._replace(line=0) for option in checked(text) if isinstance(option, AllowedOption)]
    ran = [option._replace(line=0) for option in checked(run) if isinstance(option, AllowedOption)]
    assert [option for option in ran if option.name != ""] == kept


def test_a_line_that_is_not_utf_8_is_checked_too() -> None:
    for name in FORBIDDEN:
        text = decode(f"race=\xe9lf\nname=\xe9 {name}=1".encode("latin-1"))
        assert [refusal.line for refusal in refused(text)] == [2]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # Includes: bare tokens, and names that only resemble a bundled file.
        ("-", 1),
        ('"-"', 1),
        ("profileset.a+=-", 1),
        ("/etc/passwd", 1),
        ("level=80\n..", 2),
        ("x.simc", 1),
        ("./mage.simc", 1),
        ("../mage.simc", 1),
        ("/mage.simc", 1),
        ("MAGE.SIMC", 1),
        ("mage", 1),
        ('"mage.simc "', 1),
        ('"mage.simc" x', 1),
        ("input=./mage.simc", 1),
        ("input=-", 1),
        ("input=", 1),
        ("INPUT=mage.simc", 1),
        ("input+=mage.simc", 1),
        ("input==mage.simc", 1),
        ("profileset.a+=input=/etc/passwd", 1),
        ("profileset.a+=x.simc", 1),
        ("profileset.a=mage.simc/../x.simc", 1),
        ("iterations=5 # a note", 1),
        ("level=80\x0bhtml=/x\n\x0c", 2),
        ("\ufeff\ufeff", 1),
        ("level=80\n\ufeff# a=1", 2),
        # Templates that could form a directive.
        ("$(x)=html=/x\n$(x)", 2),
        ("$(x)=mage.simc\n$(x)", 2),
        ("$(x)=-\n$(x)", 2),
        ("$(x)=/etc/passwd\ninput=$(x)", 2),
        ("$(x)=/etc/passwd\nprofileset.a+=input=$(x)", 2),
        ("$(x)=tml\nh$(x)=/x", 2),
        ("$(x)=html\n$(x)y=/x", 2),
        ("$(x)=html=/x\nprofileset.a+=$(x)", 2),
        ("$(x)=html\nprofileset.a+=$(x)=/x", 2),
        ("$(x)=profileset.a\n$(x)+=html=/x", 2),
        ("$(x)=a+=html=/x\nprofileset.$(x)", 2),
        ("$(x)=a\nprofileset.$(x)+=level=80", 2),
        ("$(x)=level=80\nprofileset.a+=$(x)", 2),
        ("$(x)=level\nprofileset.a+=$(x)=80", 2),
        ("profileset.a+=$(x)=1", 1),
        ("profileset.a+=$x", 1),
        ("$(y)=x\n$($(y))=1", 2),
        ("$(d)=$\nname=$(d)\nname=$(d)(x)", 3),
        ("$(d)=$\nprofileset.a+=name=$(d)(x)", 2),
        ("name=$(nothing)", 1),
        ("name=$(open", 1),
        ("$x=1", 1),
        ("$=1", 1),
        ("$(x=1", 1),
        ("$(x)=$(x)", 1),
        ("$(a)=1\nname=" + "$(a)" * 11, 2),
        # Item databases in each slot, and in the override of a slot.
        *((f"level=80\n{slot}=,id=1,source=wowhead", 2) for slot in sorted(ITEM_SLOTS)),
        *((f"{slot}=,id=1,source=local", 1) for slot in "leg foot hand ring1 ring2 shoulder wrist".split()),
        ('head="hood,id=1, SOURCE =wowhead"', 1),
        ("head=hood,source", 1),
        ('head="hood,id=1,sou"rce=wowhead', 1),
        ("$(x)=source\nhead=hood,$(x)=wowhead", 2),
        ("$(x)=rce=wowhead\nhead=hood,sou$(x)", 2),
        ("profileset.a+=head=hood,source=wowhead", 1),
        ("profileset.a+=ring2=,source=wowhead", 1),
        ("override.item_slot.head=hood,source=wowhead", 1),
        ("override.item_slot.Ring=hood,source=wowhead", 1),
        ("override.item_slot.head=hood,id=1,sou\noverride.item_slot.head+=rce=wowhead", 2),
        ("items=head=hood,sou\nitems+=rce=wowhead", 2),
        ("profileset.a+=override.item_slot.head=,source=wowhead", 1),
        # Profilesets that the simulator would not build as written.
        ("profileset.=level=80", 1),
        ("profileset.+=level=80", 1),
        ("profileset.++=level=80", 1),
        ("profileset.1.5+=level=80", 1),
        ("profileset.a.b=", 1),
        ("Profileset.a+=level=80", 1),
        ("profileset.a=b+=level=80", 1),
        ("profileset.a+=profileset.b+=level=80", 1),
        ("profileset.a+=profileset.b=level=80", 1),
        ("profileset.a+=PROFILESET.b+=html=/x", 1),
        ("profileset.a", 1),
        ("profileset.a+=iterations=99999999=", 1),
        ("profileset.a+=target_error=0.0001=", 1),
    ],
)
def test_an_evasion_is_refused_on_its_line(text: str, line: int) -> None:
    assert {refusal.line for refusal in refused(text)} == {line}


ADDON_EXPORT = """\
# Ilyra - Frost - 2026-03-01 20:15 - EU/Somewhere
# SimC Addon 12.0.0-01
# WoW 12.0.0.61000, TOC 120000
# Requires SimulationCraft 1200-01 or newer

mage="Ilyra"
level=90
race=void_elf
region=eu
server=somewhere
role=spell
professions=tailoring=100/enchanting=87
spec=frost
# loot_spec=fire
loot_spec=frost

talents=CAEAAAAAAAAAAAAAAAAAAAAAAYGmZmZMzMzYmZmZbMzMDAA+/==
# Saved Loadout: Two targets
# talents=CAEAAAAAAAAAAAAAAAAAAAAAAYGmZm

# Hood of the Long Winter (639)
head=,id=212093,enchant_id=7538,gem_id=213743/213467,bonus_id=10356/10370/1540,crafted_stats=36/49
neck=,id=225577,bonus_id=10390/6652,crafting_quality=5
finger1=,id=228411,gem_id=228638/228639,context=11
main_hand=,id=222566,enchant_id=7463,bonus_id=10421/9633/8902

### Gear from Bags
#
# Somebody's Old Hat (610)
# head=,id=211002,source=wowhead,bonus_id=1
# html=/x

### Additional Character Info
#
# upgrade_currencies=c:2914:30/c:2915:55
# slot_high_watermarks=0:639:639/1:623:623

# Checksum: 5f0c2a1e
""".replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "# html=/x\n \t#threads=2\r\n#",
        ADDON_EXPORT,
        "tinker=Someone\nwarpcharm=2\nexpansion13.option=1\nnew_option+=1",
        "actions=frostbolt,if=buff.brain_freeze.up&!(cooldown.orb.remains<=3|active_enemies>=2)",
        'actions.cds+="/use_item,name=old hat,if=target.time_to_die>30"',
        "actions+=/variable,name=html,value=1 actions.json=/wait,sec=1",
        "actions+=/log,if=$|x|$y&price=5$",
        'name=Pay$ level=$1 profileset."Gold $5"+=name=a$b',
        "$(who)=Ilyra\nmage=$(who)\nprofileset.a+=name=$(who)",
        "profileset.a+=actions+=/x profileset.a+=actions.b+=/x profileset.a+=apl_variable.c+=1",
        "profileset.a+=raid_events+=/adds,count=3 profileset.a+=class_talents+=/1:1 profileset.a+=target_level+=3",
        'profileset."A B"= profileset.Ä+=trinket1=,id=5 profileset.b++=level=80',
        "profileset.a=iterations=1000 profileset.a+=target_error=0.5",
        "calculate_scale_factors=1 scale_only=int,crit scale_delta_multiplier=2 center_scale_delta=1 scale_over=x",
        "report_details=0 dps_plot_stat=crit deterministic=1 single_actor_batch=1",
        "iterations=10000 target_error=0.1 max_time=300 fight_style=DungeonSlice desired_targets=5",
        "enemy=One enemy=Two pet=wolf,a copy=b,a active=owner party=a",
        "source=wowhead origin=https://example.org/a?b=c comment=source",
        "raid_events=/adds,source=x head=resource,id=1,sources=2",
        "override.item_slot.trinket1=orb,id=7 override.bloodlust=1 override.spell_data=spell.1.x=2",
        'talents="A B"html=/x x="y" html=/x',
        "htm=1 html5=1 xhtml=1 html.x=1 thread=1 thumb.nail=1 savegear=1",
        '"" "',
        "input=mage.simc mage.simc profileset.a+=input=mage.simc",
    ],
)
def test_a_harmless_text_is_allowed(text: str) -> None:
    assert refused(text) == []


def test_characters_are_downloaded_only_with_credentials() -> None:
    for name in ("armory", "guild"):
        text = f"{name}=eu,somewhere,ilyra"
        assert refused(text) == [Refusal(1, text, policy.NO_CREDENTIALS)]
        assert checked(text, has_credentials=True) == [AllowedOption(1, name, "eu,somewhere,ilyra")]


def test_an_option_is_returned_as_the_simulator_reads_it() -> None:
    text = '$(n)=80\nmage="A B"\nlevel=$(n) \nmage.simc\nprofileset."C D"=level=$(n) profileset."C D"+='
    assert checked(text) == [
        AllowedOption(2, "mage", "A B"),
        AllowedOption(3, "level", "80"),
        AllowedOption(4, None, "mage.simc"),
        AllowedOption(5, "level", "80", "C D", replaces=True),
        AllowedOption(5, "", "", "C D"),
    ]


def test_a_refusal_has_a_line_a_text_and_a_reason() -> None:
    text = 'h"tm"l=/x\n"save prefix"=1 threads=2\nx.simc'
    assert refused(text) == [
        Refusal(1, "html=/x", policy.WRITES),
        Refusal(2, "save prefix=1", NOT_A_NAME),
        Refusal(2, "threads=2", policy.THREADS),
        Refusal(3, "x.simc", policy.NOT_BUNDLED),
    ]


def test_every_refusal_is_returned() -> None:
    text = "name=$(missing) $(x) html=/x\n" * 3
    assert [refusal.line for refusal in refused(text)] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
