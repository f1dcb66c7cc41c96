"""Names made of the simulator's tokens, and links to a database of the game."""

from typing import Any

import pytest

from dashboard.results import actor, breakdown, game_links, names
from dashboard.results.options import Options
from jobs.results.details import Ability

DATABASE = "https://wow.example.org/{kind}={id}?lang=en"


@pytest.mark.parametrize(
    ("token", "name"),
    [
        ("shifting_power", "Shifting Power"),
        ("aspectral_emissarys_crystalline_cowl", "Aspectral Emissarys Crystalline Cowl"),
        ("winds_of_the_winter", "Winds of the Winter"),
        ("the_first_and_the", "The First and The"),
        ("avenger's_shield", "Avenger's Shield"),
        ("anti-magic_shell", "Anti-Magic Shell"),
        ("power_word:_fortitude", "Power Word: Fortitude"),
        ("eye__of", "Eye  Of"),
        ("élan", "Élan"),
        ("<img src=x>", "<img src=x>"),
        ("Ice Nova of McAllister", "Ice Nova of McAllister"),
        ("", ""),
    ],
)
def test_tokens_become_titles(token: str, name: str) -> None:
    assert names.titled(token) == name


def test_slots_are_labels_and_not_titles() -> None:
    assert (names.slot_of("main_hand"), names.slot_of("finger1")) == ("Main hand", "Ring 1")


@pytest.mark.parametrize(
    ("class_name", "specialization", "shown"),
    [
        ("deathknight", "Unholy Deathknight", "Unholy Death Knight"),
        ("death_knight", "unholy_death_knight", "Unholy Death Knight"),
        ("demonhunter", "Havoc Demonhunter", "Havoc Demon Hunter"),
        ("", "Havoc Demon Hunter", "Havoc Demon Hunter"),
        ("mage", "Frost", "Frost Mage"),
        ("hunter", "Beast Mastery Hunter", "Beast Mastery Hunter"),
        ("mage", "Mage", "Mage"),
        ("mage", "Archmage", "Archmage Mage"),
        ("mage", "unknown", "Mage"),
        ("tin(ker", "Gnome Tin(ker", "Gnome tin(ker"),
        ("none", "none", ""),
    ],
)
def test_the_class_is_named_once(class_name: str, specialization: str, shown: str) -> None:
    assert names.specialization_of(class_name, specialization) == shown


@pytest.mark.parametrize("number", [None, 0, -1, True, "5", "5/../x", 10**9, 1.5, [5]])
def test_only_ids_become_links(settings: Any, number: Any) -> None:
    settings.GAME_DATABASE_URL = DATABASE
    assert game_links.link_to("item", number) == ""
    assert game_links.link_to("item", 212072) == "https://wow.example.org/item=212072?lang=en"


def test_there_are_no_links_without_a_database() -> None:
    item = actor.item_of({"id": 5, "name": "cowl_of_ice", "gemIds": [7]})
    assert (item.name, item.link, item.gem_links) == ("Cowl of Ice", "", [("7", "")])


def test_items_and_gems_lead_to_the_database(settings: Any) -> None:
    settings.GAME_DATABASE_URL = DATABASE
    item = actor.item_of({"id": 5, "name": "cowl", "gemIds": [7, "<b>"]})
    assert item.link == "https://wow.example.org/item=5?lang=en"
    assert item.gem_links == [("7", "https://wow.example.org/item=7?lang=en"), ("<b>", "")]


def test_only_spells_that_the_build_knows_lead_to_the_database(settings: Any) -> None:
    settings.GAME_DATABASE_URL = DATABASE
    abilities = (Ability(name="Frostbolt", id=116, share=0.6), Ability(name="frost_bolt", id=2, share=0.4))
    found = breakdown.breakdown_of(abilities, Options())
    assert found
    links = {row.name: row.link for row in found.rows}
    assert links == {"Frostbolt": "https://wow.example.org/spell=116?lang=en", "Frost Bolt": ""}
