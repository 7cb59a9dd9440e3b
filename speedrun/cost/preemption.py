"""How often to write a checkpoint when machines are taken away, and what that costs.

Young (1974) and Daly (2006): failures come at random, ``m`` seconds apart on average over the whole gang; a
checkpoint stops training for ``d`` seconds; after a failure ``r`` seconds pass until training goes on from the
last checkpoint. Work of ``t`` seconds and its checkpoint then take m e^(r/m) (e^((t+d)/m) - 1) seconds on
average, replays, restarts and failures while restarting included. Nothing here imports jax.
"""

import math
import random


def expected_overhead(interval_seconds: float, checkpoint_seconds: float, restart_seconds: float, mtbf: float) -> float:
    """Wall time over training time, less 1: what checkpoints, restarts and replays add.

    Args:
        interval_seconds: training time between two checkpoints.
        checkpoint_seconds: for which a checkpoint stops training.
        restart_seconds: from the loss of a machine to the first new step.
        mtbf: mean seconds between losses, of any machine of the gang.
    """
    work, all_ = interval_seconds / mtbf, (interval_seconds + checkpoint_seconds) / mtbf
    return math.exp(restart_seconds / mtbf) * math.expm1(all_) / work - 1


def best_interval_seconds(checkpoint_seconds: float, mtbf: float) -> float:
    """The interval with the least expected overhead; about sqrt(2 d m), whatever a restart takes.

    The exact optimum solves (1 - t/m) e^((t+d)/m) = 1; the left side falls in t, so halving finds it.
    """
    low, high = 0.0, mtbf
    for _ in range(100):
        middle = (low + high) / 2
        if (1 - middle / mtbf) * math.exp((middle + checkpoint_seconds) / mtbf) > 1:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def simulated_seconds(
    work_seconds: float,
    interval_seconds: float,
    checkpoint_seconds: float,
    restart_seconds: float,
    mtbf: float,
    chance: random.Random,
) -> float:
    """Wall time of one run, event by event: the check on ``expected_overhead``, which shares no formula with it."""
    clock, saved = 0.0, 0.0
    next_loss = chance.expovariate(1 / mtbf)
    while saved < work_seconds:
        piece = min(interval_seconds, work_seconds - saved)
        end = clock + piece + checkpoint_seconds
        if end <= next_loss:
            clock, saved = end, saved + piece
            continue
        # What was trained since the last checkpoint is lost; a machine may be lost while restarting, too.
        while True:
            clock = next_loss
            next_loss = clock + chance.expovariate(1 / mtbf)
            if clock + restart_seconds <= next_loss:
                clock += restart_seconds
                break
    return clock
