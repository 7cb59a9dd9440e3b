"""Methods in real runs: what they promise of the finished model is measured on its checkpoint."""

from collections.abc import Callable

import pytest

from tests.conftest import Cli


@pytest.mark.slow
def test_a_pruned_run_records_the_sparsity_that_it_reached(new_project: Callable[[str], Cli]) -> None:
    cli = new_project("pruned")
    (info,) = cli.json("run", "fim_pruning_75", "--rung", "micro_1", "--steps", "12")
    # Two layers of 4 x 48 x 48 and 3 x 48 x 128, and a head of 48 x 2,048: 153,600 weights, of which 3/4 are whole.
    (metric,) = info["metrics"]
    assert (metric["name"], metric["value"], metric["unit"]) == ("sparsity", 0.75, "share")
