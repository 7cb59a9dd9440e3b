import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedrun.scoring import Comparison, Dominance, Noise, compare, pareto_front, rank, reaching
from speedrun.scoring.table import all_arms

BUDGETS = {"a": 1e17, "b": 1e18, "c": 1e19}
BASE = {"a": 1.5, "b": 1.3, "c": 1.17}


def table(losses: dict[str, dict[str, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        (name, rung, 0, loss, BUDGETS[rung]) for name, rungs in losses.items() for rung, loss in rungs.items()
    ).set_axis(["candidate", "rung", "seed", "bits_per_byte", "model_flops"], axis=1)


def compared(losses: dict[str, dict[str, float]]) -> tuple[list[Comparison], pd.DataFrame]:
    runs = table({"base": BASE, **losses})
    return [compare(runs, name, "base", noise=Noise.assumed(), draws=500) for name in ("base", *losses)], runs


def ranked(losses: dict[str, dict[str, float]]) -> pd.DataFrame:
    comparisons, runs = compared(losses)
    return rank(comparisons, Dominance.of(all_arms(runs)), "c")


def dominators(runs: pd.DataFrame) -> dict[str, set[str]]:
    found = Dominance.of(all_arms(runs))
    return {name: {found.names[at] for at in found.above(name)} for name in found.names}


def test_the_front_holds_what_nothing_beats() -> None:
    runs = pd.DataFrame(
        {
            "model_flops": [1.0, 1.0, 2.0, 3.0, 3.0, 0.5],
            "bits_per_byte": [1.5, 1.6, 1.4, 1.4, 1.3, math.nan],
        }
    )
    assert pareto_front(runs).tolist() == [True, False, True, False, True, False]


@settings(deadline=None)  # machines may be busy
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=12))
def test_every_run_off_the_front_is_beaten_by_one_on_it(points: list[tuple[int, int]]) -> None:
    runs = pd.DataFrame(points, columns=["model_flops", "bits_per_byte"])
    front = pareto_front(runs)
    assert front.any()
    best = [point for point, on in zip(points, front, strict=True) if on]
    for point, on in zip(points, front, strict=True):
        beaten = any(other != point and other[0] <= point[0] and other[1] <= point[1] for other in best)
        assert beaten is not bool(on)


def test_a_target_lists_who_reaches_it_cheapest_first() -> None:
    runs = pd.DataFrame(
        {
            "candidate": ["slow", "fast", "short", "unknown"],
            "bits_per_byte": [1.1, 1.2, 1.3, 1.1],
            "training_time_seconds": [20.0, 10.0, 1.0, math.nan],
        }
    )
    assert reaching(runs, 1.2, by="training_time_seconds")["candidate"].tolist() == ["fast", "slow", "unknown"]


def test_beating_takes_every_rung_and_no_more_compute() -> None:
    losses = {
        "best": {"a": 1.4, "b": 1.2, "c": 1.1},
        "mixed": {"a": 1.39, "b": 1.25, "c": 1.15},
        "short": {"a": 1.3},
    }
    runs = table(losses)
    assert dominators(runs) == {"best": set(), "mixed": set(), "short": set()}
    assert dominators(table(losses | {"last": {"a": 1.45, "c": 1.16}}))["last"] == {"best", "mixed"}
    runs = table({"cheap": {"a": 1.4}, "dear": {"a": 1.3}})
    runs.loc[runs["candidate"] == "dear", "model_flops"] *= 1.1
    assert dominators(runs)["cheap"] == set()


def test_the_lower_end_ranks_and_what_is_not_told_apart_shares_a_tier() -> None:
    found = ranked(
        {
            "first": {"c": 1.1500},
            "close": {"c": 1.1502},
            "third": {"c": 1.1600},
            "worse": {"c": 1.2000},
        }
    )
    assert found["candidate"].tolist() == ["first", "close", "third", "base", "worse"]
    assert found["rank"].tolist() == [1, 2, 3, 4, 5]
    assert found["tier"].tolist() == [1, 1, 2, 3, 4]
    assert found.loc[3, ["speedup", "low", "high"]].tolist() == [1, 1, 1]


def test_whoever_cannot_be_ranked_says_why() -> None:
    found = ranked({"small": {"a": 1.4}, "below": {"c": 0.5}, "fine": {"c": 1.15}}).set_index("candidate")
    assert pd.isna(found.at["small", "rank"]) and "no run at c" in found.at["small", "reason"]
    assert pd.isna(found.at["below", "rank"]) and "asymptote" in found.at["below", "reason"]
    assert found.at["fine", "rank"] == 1


def test_different_baselines_are_not_ranked_together() -> None:
    runs = table({"base": BASE, "other": BASE})
    comparisons = [compare(runs, "base", "other", noise=Noise.assumed()), compare(runs, "other", "base")]
    with pytest.raises(ValueError, match="different baselines"):
        rank(comparisons, Dominance.of(all_arms(runs)), "c")


LOSS = st.integers(1, 30).map(lambda steps: 1.0 + steps / 100)


@settings(max_examples=12, deadline=None)
@given(
    st.dictionaries(st.sampled_from("uvwxyz"), st.dictionaries(st.sampled_from("abc"), LOSS, min_size=1), min_size=2)
)
def test_nobody_ranks_above_whoever_beats_them_everywhere(losses: dict[str, dict[str, float]]) -> None:
    comparisons, runs = compared(losses)
    for rung in BUDGETS:
        found = rank(comparisons, Dominance.of(all_arms(runs)), rung).dropna(subset="rank")
        position = dict(zip(found["candidate"], found["rank"], strict=True))
        assert sorted(position.values()) == list(range(1, len(position) + 1))
        for name, better in dominators(runs).items():
            for other in better & position.keys():
                assert name not in position or position[other] < position[name]
