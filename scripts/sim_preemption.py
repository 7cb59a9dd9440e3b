"""The standard ladder on 32 hosts with a machine lost every hour: formula against simulation.

    python scripts/sim_preemption.py [--checkpoint 10] [--restart 300] [--mtbf 3600] [--hardware v5p-256] [--mfu 0.4]

Nothing is trained. The default of 10 s for a checkpoint and 300 s for a restart are assumptions: measure your
own (`speedrun status` shows attempts; a run's log says how long a checkpoint took) and set --checkpoint-every.
"""

import argparse
import random
import statistics

from speedrun.cost.preemption import best_interval_seconds, expected_overhead, simulated_seconds
from speedrun.hardware import hardware_flops, parse_hardware
from speedrun.ladder import LADDER

RUNS = 300
INTERVALS_SECONDS = (60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=float, default=10.0, help="seconds that a checkpoint stops training")
    parser.add_argument("--restart", type=float, default=300.0, help="seconds from a loss to the first new step")
    parser.add_argument("--mtbf", type=float, default=3600.0, help="mean seconds between losses, whole gang")
    parser.add_argument("--hardware", default="v5p-256", help="what the ladder runs on (v5p-256 has 32 hosts)")
    parser.add_argument("--mfu", type=float, default=0.4)
    options = parser.parse_args()
    costs = options.checkpoint, options.restart, options.mtbf
    chance = random.Random(0)
    best = best_interval_seconds(options.checkpoint, options.mtbf)
    print(f"best interval {best:.0f} s\n\n{'interval':>10} {'expected':>10} {'simulated':>10}   overhead")
    for interval in sorted((*INTERVALS_SECONDS, best)):
        work = 20 * interval
        times = [simulated_seconds(work, interval, *costs, chance) for _ in range(RUNS)]
        seen = statistics.mean(times) / work - 1
        print(f"{interval:>8.0f} s {expected_overhead(interval, *costs):>10.1%} {seen:>10.1%}")

    (spec,) = parse_hardware(options.hardware)
    peak = hardware_flops(1.0, spec)
    if peak is None:
        parser.error(f"--hardware {options.hardware} has no peak, so that the ladder's time is unknown")
    print(
        f"\n{'rung':>10} {'undisturbed':>12} {'expected':>10} {'simulated':>10}   hours on {spec} ({spec.hosts} hosts)"
    )
    for rung in LADDER.values():
        if rung.is_micro:
            continue
        work = rung.budget_flops / (peak * options.mfu)
        times = [simulated_seconds(work, best, *costs, chance) for _ in range(RUNS)]
        expected = work * (1 + expected_overhead(best, *costs))
        print(f"{rung.name:>10} {work / 3600:>12.2f} {expected / 3600:>10.2f} {statistics.mean(times) / 3600:>10.2f}")


if __name__ == "__main__":
    main()
