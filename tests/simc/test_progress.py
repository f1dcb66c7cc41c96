import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.progress import ParallelSets, Phase, ProgressMeter, parse_update

BAR = "[=====>..............]"


def update(label: str = "Baseline:", *, phase: int = 1, phases: int = 1, done: int, total: int) -> str:
    return f"Generating {label} {phase}/{phases} {BAR} {done}/{total} 85.210"


def curve(meter: ProgressMeter, updates: list[str]) -> list[float]:
    percents = []
    for text in updates:
        meter.feed(text)
        percents.append(meter.percent)
    return percents


class TestParseUpdate:
    def test_the_baseline_is_read(self) -> None:
        text = f"Generating Baseline: 1/1 {BAR} 250/1000 85.210 Mean=51234 Error=0.512% 2min 12sec   "
        assert parse_update(text) == Phase(
            label="Baseline", number=1, count=1, share=0.25, iterations=250, mean=51234, error_percent=0.512
        )

    def test_the_last_update_of_a_phase_is_read(self) -> None:
        text = f"Generating Profileset: ruby_1 2/65 {BAR} 1602/1602 224.360 Mean=31179 Error=0.294% 3.570 (3m, 7s)"
        assert parse_update(text) == Phase(
            label="Profileset: ruby_1",
            number=2,
            count=65,
            share=1.0,
            iterations=1602,
            mean=31179,
            error_percent=0.294,
            fighting_seconds=3.57,
        )

    @pytest.mark.parametrize(
        ("end", "seconds"),
        [("312msec", 0.3125), ("2min 3.570", 123.57), ("12sec", 0), ("1min 2sec (3m)", 0), ("1.2.3", 0), ("", 0)],
    )
    def test_only_the_last_update_of_a_phase_has_its_duration(self, end: str, seconds: float) -> None:
        parsed = parse_update(f"Generating Baseline: 1/1 {BAR} 9/9 1.0 Mean=5 Error=1% {end}")
        assert isinstance(parsed, Phase)
        assert parsed.fighting_seconds == seconds

    def test_an_actor_of_a_batch_is_read(self) -> None:
        text = update("Baseline: Frost Mage", phase=2, phases=4, done=1, total=2)
        assert parse_update(text) == Phase(label="Baseline: Frost Mage", number=2, count=4, share=0.5, iterations=1)

    def test_a_scale_factor_is_read(self) -> None:
        text = update("Ref Int: 100 Int", phase=3, phases=8, done=0, total=9)
        assert parse_update(text) == Phase(label="Ref Int: 100 Int", number=3, count=8, share=0.0)

    @pytest.mark.parametrize("average", ["nan", "312ms"])
    def test_parallel_profilesets_are_read(self, average: str) -> None:
        text = f"Profilesets (4*1): 3/20 [==>.................] avg={average} done=4s left=19s     "
        assert parse_update(text) == ParallelSets(done=3, count=20)

    @pytest.mark.parametrize("name", ["Generating Baseline: 1/1 [", f"x 9/9 {BAR} 9/9 [=", "[", "a\tb", "n" * 300])
    def test_a_name_is_never_mistaken_for_a_counter(self, name: str) -> None:
        parsed = parse_update(update(f"Profileset: {name}", phase=2, phases=4, done=1, total=2))
        assert isinstance(parsed, Phase)
        assert (parsed.number, parsed.count, parsed.share) == (2, 4, 0.5)

    def test_a_label_is_printable_and_whole(self) -> None:
        parsed = parse_update(update("Profileset: \x1b[31m\x00\ud800" + "n" * 999, done=1, total=2))
        assert isinstance(parsed, Phase)
        assert parsed.label.startswith("Profileset: \ufffd[31m\ufffd\ufffdnnn")
        assert parsed.label.endswith("n" * 999)

    def test_a_phase_ends_with_its_elapsed_time(self) -> None:
        ends = ("201/201 85.210 Mean=5 Error=0.2% 2sec", "302/302 85.210 Mean=5 Error=0.2% 3.570")
        bars = [parse_update(f"Generating Profileset: a 2/2 {BAR} {end}") for end in ends]
        assert [isinstance(bar, Phase) and bar.has_ended for bar in bars] == [False, True]

    def test_a_phase_without_a_target_error_ends_too(self) -> None:
        ends = ("9/9 85.210 2sec", "9/9 85.210", "9/9 85.210 312msec", "9/9 85.210 1min 3.570 (3m, 7s)")
        bars = [parse_update(f"Generating Baseline: 1/1 {BAR} {end}") for end in ends]
        assert [isinstance(bar, Phase) and bar.has_ended for bar in bars] == [False, False, True, True]

    @pytest.mark.parametrize("counts", ["0/0", "7/5"])
    def test_a_share_is_between_0_and_1(self, counts: str) -> None:
        parsed = parse_update(f"Generating Baseline: 1/1 {BAR} {counts} 85.210")
        assert isinstance(parsed, Phase)
        assert 0 <= parsed.share <= 1

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Generating reports...",
            f"Generating Baseline: 1/1 {BAR}",
            f"Baseline: 1/1 {BAR} 1/2 3.0",
            f"Generating Baseline: 1/1 {BAR} {'9' * 5000}/1 3.0",
            f"Generating Baseline: 1/{'9' * 5000} {BAR} 1/2 3.0",
            f"Generating Baseline: \u0661/1 {BAR} 1/2 3.0",
        ],
    )
    def test_other_text_is_no_update(self, text: str) -> None:
        assert parse_update(text) is None

    @given(st.text())
    def test_any_text_is_handled(self, text: str) -> None:
        parse_update(text)
        parse_update(f"Generating {text} 1/2 {BAR} {text}")

    @pytest.mark.timeout(10)
    @pytest.mark.parametrize("piece", [" 1/1 [=] 1/1 ", " 1/1 [", "[", " 1/", "1", "=", " "])
    def test_parsing_time_is_linear(self, piece: str) -> None:
        assert parse_update("Generating " + piece * (1_000_000 // len(piece)) + "[") is None


class TestProgressMeter:
    def test_a_full_bar_that_can_still_grow_is_no_progress(self) -> None:
        ends = ("100/201 9.0 Mean=5 Error=1%", "201/201 9.0 Mean=5 Error=1%", "202/303 9.0 Mean=5 Error=1%")
        updates = [f"Generating Baseline: 1/1 {BAR} {end} 2sec" for end in ends]
        assert curve(ProgressMeter(), updates) == [49.8, 49.8, 66.7]

    def test_one_phase_runs_from_0_to_100(self) -> None:
        meter = ProgressMeter()
        assert curve(meter, [update(done=n, total=4) for n in range(1, 4)]) == [25, 50, 75]
        assert meter.label == "Baseline"

    def test_all_phases_have_the_same_weight(self) -> None:
        meter = ProgressMeter(expected_phases=4)
        updates = [
            update(phase=1, phases=4, done=10, total=10),
            update("Profileset: a", phase=2, phases=4, done=1, total=2),
            update("Profileset: b", phase=3, phases=4, done=500, total=1000),
        ]
        assert curve(meter, updates) == [25, 37.5, 62.5]

    def test_a_growing_projection_does_not_reduce_the_percentage(self) -> None:
        updates = [update(done=500, total=1000), update(done=600, total=2000), update(done=1500, total=2000)]
        assert curve(ProgressMeter(), updates) == [50, 50, 75]

    def test_profilesets_that_are_not_read_yet_count(self) -> None:
        meter = ProgressMeter(expected_phases=10)
        assert curve(meter, [update(phase=1, phases=1, done=1, total=2)]) == [5]

    def test_more_phases_than_expected_count(self) -> None:
        assert curve(ProgressMeter(), [update(phase=1, phases=10, done=1, total=2)]) == [5]

    def test_parallel_profilesets_follow_the_baseline(self) -> None:
        meter = ProgressMeter(expected_phases=5)
        updates = [update(done=10, total=10), *(f"Profilesets (2*1): {n}/4 {BAR} avg=1s" for n in range(5))]
        assert curve(meter, updates) == [20, 20, 40, 60, 80, 99.9]
        assert meter.label == "Profilesets"

    def test_the_remaining_time_follows_the_pace_since_the_first_update(self) -> None:
        times = iter([100.0, 104.0])
        meter = ProgressMeter(clock=lambda: next(times))
        assert meter.seconds_left is None
        # The simulator loads its data before the first update.
        meter.feed(update(done=10, total=50))
        assert meter.seconds_left is None
        meter.feed(update(done=20, total=50))
        assert meter.seconds_left == 12

    def test_only_a_finished_run_is_at_100_percent(self) -> None:
        meter = ProgressMeter()
        meter.feed(update(done=1000, total=1000))
        assert meter.percent < 100
        meter.finish()
        assert meter.percent == 100

    def test_other_text_does_not_change_the_percentage(self) -> None:
        meter = ProgressMeter()
        curve(meter, [update(done=1, total=2), "Generating reports...", ""])
        assert (meter.percent, meter.label) == (50, "Baseline")

    @given(
        st.lists(
            st.builds(
                update,
                phase=st.integers(0, 10**12 - 1),
                phases=st.integers(0, 20),
                done=st.integers(0, 50),
                total=st.integers(0, 50),
            )
            | st.builds("Profilesets (1*1): {}/{} [>] ".format, st.integers(0, 9), st.integers(0, 9))
            | st.text()
        )
    )
    def test_the_percentage_never_falls_and_never_ends_early(self, updates: list[str]) -> None:
        percents = curve(ProgressMeter(), updates)
        assert percents == sorted(percents)
        assert all(0 <= percent < 100 for percent in percents)
