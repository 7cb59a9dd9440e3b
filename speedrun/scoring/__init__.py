"""Scoring: what runs show about a candidate against its baseline, each figure one function.

From a table of runs (`table.Run`) to words: `compare` sets a candidate against its baseline at every rung,
`judge` says what that shows, `rank` orders candidates. No jax here. Definitions: docs/scoring.md.
"""

from speedrun.scoring.comparison import Comparison, RungComparison, compare
from speedrun.scoring.curve import Curve, Forecast, fit_curve, forecast
from speedrun.scoring.estimate import LEVEL, Estimate, UndefinedError
from speedrun.scoring.noise import Noise, mean_interval, noises_of, pooled_noise
from speedrun.scoring.outlook import Outlook, outlook
from speedrun.scoring.power import pairwise_test, power_table
from speedrun.scoring.ranking import Dominance, pareto_front, rank, reaching
from speedrun.scoring.table import Arm, Run, arms_of, check_runs
from speedrun.scoring.trend import Trend, trend
from speedrun.scoring.verdict import LadderWord, RungWord, Verdict, judge

__all__ = [
    "LEVEL",
    "Arm",
    "Comparison",
    "Curve",
    "Dominance",
    "Estimate",
    "Forecast",
    "LadderWord",
    "Noise",
    "Outlook",
    "Run",
    "RungComparison",
    "RungWord",
    "Trend",
    "UndefinedError",
    "Verdict",
    "arms_of",
    "check_runs",
    "compare",
    "fit_curve",
    "forecast",
    "judge",
    "mean_interval",
    "noises_of",
    "outlook",
    "pairwise_test",
    "pareto_front",
    "pooled_noise",
    "power_table",
    "rank",
    "reaching",
    "trend",
]
