from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.simulator.command import (
    PROFILE_NAME,
    PROXY_PORT,
    BuildVersion,
    arguments,
    input_text,
    parse_version_line,
    probe_arguments,
)

VERSION_START = "SimulationCraft 1120-01 for World of Warcraft 11.2.0.63003 Live"


def options(*, threads: int = 2, html: bool = False) -> list[str]:
    return arguments(threads=threads, json_version=2, html=html)


class TestArguments:
    def test_the_profile_comes_first_so_that_the_service_has_the_last_word(self) -> None:
        first, *rest = options()
        assert first == PROFILE_NAME
        assert all("=" in option for option in rest)

    def test_version_two_is_asked_for_by_its_own_option(self) -> None:
        assert "json2=report.json" in arguments(threads=1, json_version=2, html=False)

    def test_version_three_is_asked_for_by_the_only_spelling_the_simulator_knows(self) -> None:
        asked = arguments(threads=1, json_version=3, html=False)
        assert "json=report.json,version=3.0.0-alpha1" in asked
        assert "json2=report.json" not in asked

    def test_the_page_is_written_only_when_asked_for(self) -> None:
        assert "html=report.html" in options(html=True)
        assert "html=" in options(html=False)

    def test_threads_are_always_given(self) -> None:
        assert "threads=7" in options(threads=7)

    @pytest.mark.parametrize("threads", [0, -1])
    def test_the_whole_machine_cannot_be_asked_for(self, threads: int) -> None:
        with pytest.raises(ValueError, match="at least one thread"):
            options(threads=threads)

    @pytest.mark.parametrize(
        "option",
        [
            "progressbar_type=0",
            "item_db_source=local",
            "profileset_init_threads=1",
            "statistics_level=1",
            "debug=0",
            "log=0",
            "output=",
            "save_profiles=0",
            "hosted_html=0",
        ],
    )
    def test_what_every_run_must_control(self, option: str) -> None:
        assert option in options()

    def test_no_option_is_given_twice(self) -> None:
        for has_credentials in (False, True):
            asked = arguments(threads=2, json_version=2, html=True, has_credentials=has_credentials)
            names = [option.partition("=")[0] for option in asked]
            assert len(names) == len(set(names))

    def test_the_proxy_is_set_with_game_credentials_only(self) -> None:
        proxy = f"proxy=http,127.0.0.1,{PROXY_PORT}"
        with_credentials = arguments(threads=2, json_version=2, html=False, has_credentials=True)
        assert with_credentials.index(proxy) > with_credentials.index(PROFILE_NAME)
        assert not any(option.startswith("proxy=") for option in options())

    def test_the_proxys_port_needs_no_rights_and_is_never_a_clients(self) -> None:
        assert 1024 <= PROXY_PORT < 32768


class TestInputText:
    def test_is_the_profile_and_then_the_options_one_to_a_line(self) -> None:
        text = input_text('mage="A"', [PROFILE_NAME, "threads=2", "json2=report.json"])
        assert text == 'mage="A"\n# Options of the service\nthreads=2\njson2=report.json\n'

    def test_a_comment_at_the_profiles_end_swallows_no_option(self) -> None:
        text = input_text("# the end", options(threads=3))
        assert "threads=3" in text.split("\n")

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_keeps_the_profile_as_it_is(self, profile: str) -> None:
        assert input_text(profile, options()).startswith(profile)


class TestVersionLine:
    def test_newer_trees_with_hotfix_git_and_networking(self) -> None:
        line = f"{VERSION_START} (hotfix 2025-09-04/63003, git build main 8c5116c48e, no-networking)"
        assert parse_version_line(f"\n{line}\n\nSimulating...\n") == BuildVersion(
            simc_version="1120-01",
            wow_version="11.2.0.63003",
            hotfix_date=date(2025, 9, 4),
            git_branch="main",
            git_revision="8c5116c48e",
        )

    def test_trees_of_2020_with_an_error_after_it(self) -> None:
        line = "SimulationCraft 902-01 for World of Warcraft 9.0.2.36949 Live"
        version = parse_version_line(f"{line} (wow build 36949, git build shadowlands 1a2b3c4d5e)\nNothing to sim!")
        assert version == BuildVersion("902-01", "9.0.2.36949", None, "shadowlands", "1a2b3c4d5e")

    def test_short_form(self) -> None:
        assert parse_version_line("SimulationCraft 1120-01") == BuildVersion("1120-01", None, None, None, None)

    def test_the_built_in_simulator_keeps_its_name(self) -> None:
        version = parse_version_line("minisim 0.1.0 for World of Warcraft 11.2.0 Live (not SimulationCraft)")
        assert version == BuildVersion("minisim 0.1.0", "11.2.0", None, None, None)

    @pytest.mark.parametrize("text", ["", "Segmentation fault", "my SimulationCraft 1", "SimulationCraft"])
    def test_other_output_is_no_version(self, text: str) -> None:
        assert parse_version_line(text) is None

    def test_a_date_that_does_not_exist_is_no_date(self) -> None:
        version = parse_version_line(f"{VERSION_START} (hotfix 2025-02-30/63003)")
        assert version is not None
        assert version.hotfix_date is None

    @given(st.text())
    def test_any_text_after_the_name_is_survived(self, text: str) -> None:
        parse_version_line(text)
        parse_version_line(f"SimulationCraft 1 for World of Warcraft 1 (hotfix {text}, git build {text})")

    def test_is_asked_for_without_a_profile(self) -> None:
        assert PROFILE_NAME not in probe_arguments()
