from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.command import (
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


def around_the_profile(*, has_credentials: bool) -> tuple[list[str], list[str]]:
    """Return the arguments before and after the profile."""
    all_arguments = arguments(threads=2, json_version=2, html=True, has_credentials=has_credentials)
    at = all_arguments.index(PROFILE_NAME)
    return all_arguments[:at], all_arguments[at + 1 :]


class TestArguments:
    def test_the_profile_precedes_the_services_options(self) -> None:
        first, *rest = options()
        assert first == PROFILE_NAME
        assert all("=" in option for option in rest)

    def test_version_two_has_its_own_option(self) -> None:
        assert "json2=report.json" in arguments(threads=1, json_version=2, html=False)

    def test_version_three_is_requested_by_its_exact_name(self) -> None:
        command_arguments = arguments(threads=1, json_version=3, html=False)
        assert "json=report.json,version=3.0.0-alpha1" in command_arguments
        assert "json2=report.json" not in command_arguments

    def test_the_html_report_is_written_on_request_only(self) -> None:
        assert "html=report.html" in options(html=True)
        assert "html=" in options(html=False)

    def test_threads_are_always_given(self) -> None:
        assert "threads=7" in options(threads=7)

    @pytest.mark.parametrize("threads", [0, -1])
    def test_fewer_than_one_thread_is_an_error(self, threads: int) -> None:
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
    def test_every_run_sets_the_controlled_options(self, option: str) -> None:
        assert option in options()

    @pytest.mark.parametrize("has_credentials", [False, True])
    def test_no_option_follows_the_profile_twice(self, *, has_credentials: bool) -> None:
        names = [option.partition("=")[0] for option in around_the_profile(has_credentials=has_credentials)[1]]
        assert len(names) == len(set(names))

    def test_options_of_downloads_surround_the_profile(self) -> None:
        before, after = around_the_profile(has_credentials=True)
        assert set(before) == {f"proxy=http,127.0.0.1,{PROXY_PORT}", "item_db_source=local/bcpapi"}
        assert set(before) < set(after)

    def test_without_game_credentials_nothing_is_downloaded(self) -> None:
        before, after = around_the_profile(has_credentials=False)
        assert before == []
        assert not any(option.startswith("proxy=") for option in after)

    def test_an_html_report_loads_nothing_from_other_sites(self) -> None:
        assert "decorated_tooltips=0" in options(html=True)
        assert "decorated_tooltips=0" not in options(html=False)

    def test_the_proxys_port_is_neither_privileged_nor_ephemeral(self) -> None:
        assert 1024 <= PROXY_PORT < 32768


class TestInputText:
    def test_contains_the_profile_then_one_option_per_line(self) -> None:
        text = input_text('mage="A"', [PROFILE_NAME, "threads=2", "json2=report.json"])
        assert text == 'mage="A"\n# Options of the service\nthreads=2\njson2=report.json\n'

    def test_a_comment_at_the_profiles_end_hides_no_option(self) -> None:
        text = input_text("# the end", options(threads=3))
        assert "threads=3" in text.split("\n")

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_keeps_the_profile_unchanged(self, profile: str) -> None:
        assert input_text(profile, options()).startswith(profile)

    def test_options_before_the_profile_stay_before_it(self) -> None:
        text = input_text("\ufeffmage=A", ["proxy=x", PROFILE_NAME, "proxy=x"])
        assert text == "# Options of the service\nproxy=x\nmage=A\n# Options of the service\nproxy=x\n"


class TestVersionLine:
    def test_newer_versions_name_hotfix_and_git_revision(self) -> None:
        line = f"{VERSION_START} (hotfix 2025-09-04/63003, git build main 8c5116c48e, no-networking)"
        assert parse_version_line(f"\n{line}\n\nSimulating...\n") == BuildVersion(
            simc_version="1120-01",
            wow_version="11.2.0.63003",
            hotfix_date=date(2025, 9, 4),
            git_branch="main",
            git_revision="8c5116c48e",
        )

    def test_versions_of_2020_print_it_before_an_error(self) -> None:
        line = "SimulationCraft 902-01 for World of Warcraft 9.0.2.36949 Live"
        version = parse_version_line(f"{line} (wow build 36949, git build shadowlands 1a2b3c4d5e)\nNothing to sim!")
        assert version == BuildVersion("902-01", "9.0.2.36949", None, "shadowlands", "1a2b3c4d5e")

    def test_the_short_form_has_no_details(self) -> None:
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
    def test_any_text_after_the_name_is_handled(self, text: str) -> None:
        parse_version_line(text)
        parse_version_line(f"SimulationCraft 1 for World of Warcraft 1 (hotfix {text}, git build {text})")

    def test_is_requested_without_a_profile(self) -> None:
        assert PROFILE_NAME not in probe_arguments()
