"""Do the intervals hold the truth as often as they say? Simulated ladders with a known truth answer.

    python scripts/sim_coverage.py [--repeats 1000] [--only WORD]

Each repeat draws a baseline's and a candidate's runs about known curves with known speedups, compares them as the
board does (`compare`, which chooses the noise), and notes whether each 90 % interval holds the truth, and what the
verdict says. Prints the table of docs/scoring.md. A thousand repeats of one scenario take about half a minute.
"""

import argparse
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from speedrun.scoring import Estimate, RungWord, compare, judge
from speedrun.scoring.speedup import interpolated_log_flops

STANDARD = (1.08e17, 6.75e17, 1.08e19, 2.352e20)
MICRO = (4e11, 1e12, 2.5e12, 6.25e12)
# Asymptote, bits per byte above it at the first budget, exponent. The standard ladder's is the public AdamW
# suite's; the micro ladder's is what runs on a laptop look like.
ADAMW, LAPTOP = (0.81, 0.69, 0.217), (0.9, 1.66, 0.15)

DRAWS = 1000
"""Fewer than a comparison takes, but other ones each time."""


@dataclass(frozen=True)
class Scenario:
    """A truth, and how many runs show it."""

    name: str
    budgets: tuple[float, ...]
    """Model FLOPs of the rungs."""
    curve: tuple[float, float, float]
    sigma: tuple[float, ...]
    """Seed noise at each rung, bits per byte."""
    baseline_seeds: tuple[int, ...]
    candidate_seeds: tuple[int, ...]
    speedup: float = 1.2
    """At the top rung."""
    slope: float = 0.0
    """Of its logarithm over ln C."""
    noisier: float = 1.0
    """The candidate's seed noise over the baseline's."""

    def speedups(self) -> np.ndarray:
        """The true speedup at each rung."""
        budgets = np.array(self.budgets)
        return self.speedup * (budgets / budgets[-1]) ** self.slope

    def losses(self, speedups: np.ndarray | float) -> np.ndarray:
        """The true bits per byte at each rung of a method this much faster than the baseline."""
        asymptote, above, exponent = self.curve
        return asymptote + above * (np.array(self.budgets) / self.budgets[0] * speedups) ** -exponent

    def interpolated(self) -> np.ndarray:
        """What interpolation gives without noise: its own truth, above the speedup as chords lie above curves."""
        budgets, candidate = np.array(self.budgets), self.losses(self.speedups())
        baseline = np.tile(self.losses(1.0), (len(budgets), 1))
        return np.exp(interpolated_log_flops(budgets, baseline, candidate)) / budgets

    def runs(self, rng: np.random.Generator) -> pd.DataFrame:
        """One draw of all runs."""
        arms = (
            ("baseline", self.losses(1.0), self.baseline_seeds, 1.0),
            ("candidate", self.losses(self.speedups()), self.candidate_seeds, self.noisier),
        )
        return pd.DataFrame(
            {
                "candidate": name,
                "rung": f"rung {rung + 1}",
                "seed": seed,
                "bits_per_byte": losses[rung] + noisier * self.sigma[rung] * rng.standard_normal(),
                "model_flops": budget,
            }
            for name, losses, seeds, noisier in arms
            for rung, budget in enumerate(self.budgets)
            for seed in range(seeds[rung])
        )


FALLING = (0.004, 0.003, 0.002, 0.001)
SCENARIOS = (
    Scenario("3 seeds everywhere", STANDARD, ADAMW, (0.0004,) * 4, (3,) * 4, (3,) * 4),
    Scenario("3 seeds below, 1 above", STANDARD, ADAMW, (0.001,) * 4, (3, 3, 1, 1), (3, 3, 1, 1)),
    Scenario("candidate with 1 seed", STANDARD, ADAMW, (0.0004,) * 4, (3, 3, 1, 1), (1,) * 4, speedup=1.05),
    Scenario("gain that grows", STANDARD, ADAMW, (0.002,) * 4, (3,) * 4, (3,) * 4, speedup=1.5, slope=0.04),
    Scenario("twice as fast, 2 seeds", STANDARD, ADAMW, (0.001,) * 4, (2,) * 4, (2,) * 4, speedup=2.0),
    Scenario("worse than the baseline", STANDARD, ADAMW, (0.001,) * 4, (3,) * 4, (3,) * 4, speedup=0.8),
    Scenario("no gain at all", STANDARD, ADAMW, (0.0004,) * 4, (3,) * 4, (3,) * 4, speedup=1.0),
    Scenario("three rungs", STANDARD[:3], ADAMW, (0.0004,) * 3, (3,) * 3, (3,) * 3),
    Scenario("micro ladder", MICRO, LAPTOP, (0.004,) * 4, (3,) * 4, (3,) * 4),
    Scenario("micro ladder, much noise", MICRO, LAPTOP, (0.01,) * 4, (2,) * 4, (2,) * 4, speedup=1.5),
    Scenario("2 degrees of freedom", MICRO, LAPTOP, (0.004,) * 4, (2, 2, 1, 1), (1,) * 4),
    Scenario("5 seeds, noise falls fourfold", STANDARD, ADAMW, FALLING, (5,) * 4, (5,) * 4),
    Scenario("3 seeds, noise falls fourfold", STANDARD, ADAMW, FALLING, (3,) * 4, (3,) * 4),
    Scenario("noisier candidate", STANDARD, ADAMW, (0.001,) * 4, (3,) * 4, (3,) * 4, noisier=2),
    Scenario("noisier, 5 seeds", STANDARD, ADAMW, (0.001,) * 4, (5,) * 4, (5,) * 4, noisier=2),
    Scenario("noisier, 2 seeds at one rung", STANDARD, ADAMW, (0.001,) * 4, (3,) * 4, (2, 1, 1, 1), noisier=2),
    Scenario("noisier, no gain", STANDARD, ADAMW, (0.001,) * 4, (3,) * 4, (3,) * 4, speedup=1.0, noisier=2),
    Scenario("half as noisy", STANDARD, ADAMW, (0.001,) * 4, (3,) * 4, (3,) * 4, noisier=0.5),
)
"""From "3 seeds, noise falls fourfold" on they break an assumption on purpose: one sigma for all rungs and methods."""


@dataclass(frozen=True)
class Coverage:
    """Shares of repeats, by rung: whose interval held the truth, and which words were said."""

    speedup: np.ndarray
    interpolated: np.ndarray
    """NaN where there is nothing to interpolate."""
    slope: float
    better: np.ndarray
    worse: np.ndarray


def measure(scenario: Scenario, repeats: int, seed: int = 0, draws: int = DRAWS) -> Coverage:
    """Simulates one scenario."""
    rng = np.random.default_rng([seed, zlib.crc32(scenario.name.encode())])
    speedups, interpolated = scenario.speedups(), scenario.interpolated()
    verdicts = [
        judge(compare(scenario.runs(rng), "candidate", "baseline", draws=draws, seed=repeat))
        for repeat in range(repeats)
    ]
    by_rung = [verdict.comparison.rungs for verdict in verdicts]
    held = [[_holds(rung.interpolated, s) for rung, s in zip(rungs, interpolated, strict=True)] for rungs in by_rung]
    words = np.array([[rung.word for rung in verdict.rungs] for verdict in verdicts])
    return Coverage(
        np.mean(
            [[_holds(rung.speedup, s) for rung, s in zip(rungs, speedups, strict=True)] for rungs in by_rung], axis=0
        ),
        np.where(np.isfinite(interpolated), np.mean(held, axis=0), np.nan),
        float(np.mean([_holds(verdict.trend.slope, scenario.slope) for verdict in verdicts])),
        (words == RungWord.BETTER).mean(axis=0),
        (words == RungWord.WORSE).mean(axis=0),
    )


def _holds(estimate: Estimate, truth: float) -> bool:
    """An estimate without an interval claims nothing, and so holds everything."""
    return estimate.low is None or estimate.high is None or estimate.low <= truth <= estimate.high


def _percent(shares: np.ndarray) -> str:
    return " ".join("-" if np.isnan(share) else f"{100 * share:.1f}" for share in shares)


def main() -> None:
    """Prints one row a scenario."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    arguments = parser.parse_args()
    print("| scenario | speedup, by rung | slope | interpolated | called better | called worse |")
    print("|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        if arguments.only in scenario.name:
            found = measure(scenario, arguments.repeats)
            columns = (found.speedup, np.array([found.slope]), found.interpolated, found.better, found.worse)
            print(f"| {scenario.name} | {' | '.join(map(_percent, columns))} |", flush=True)


if __name__ == "__main__":
    main()
