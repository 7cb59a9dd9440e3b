"""The arithmetic of hours and dollars, against figures known beforehand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.cost import conventions, plan
from speedrun.errors import SpeedrunError
from speedrun.hardware import Accelerator, HardwareSpec, Price
from speedrun.ladder import LADDER


def hardware(peak: float, *, chips: int = 1, usd: float | None = None) -> HardwareSpec:
    price = None if usd is None else Price(usd, "a test")
    return HardwareSpec(Accelerator("chip", "gpu", peak, "a test", None, price, "chip"), chips=chips, hosts=1)


H100, W7900 = hardware(989.5e12), hardware(122.6e12)
MINUTE, HOUR, DAY = 1 / 60, 1.0, 24.0


@pytest.mark.parametrize(
    ("rung", "flops", "h100", "w7900"),
    [
        ("30m", 1.08e17, (4.5, MINUTE), (1.2, HOUR)),
        ("75m", 6.75e17, (28.4, MINUTE), (7.7, HOUR)),
        ("300m", 1.08e19, (7.6, HOUR), (5.1, DAY)),
        ("1_4b", 2.352e20, (6.9, DAY), (111, DAY)),
    ],
)
def test_hours_of_the_ladders_budgets(
    rung: str, flops: float, h100: tuple[float, float], w7900: tuple[float, float]
) -> None:
    assert LADDER[rung].budget_flops == pytest.approx(flops, rel=1e-12)
    for machine, mfu, (figure, unit) in [(H100, 0.40, h100), (W7900, 0.20, w7900)]:
        hours = plan.plan_run(rung, flops, machine, plan.Range(mfu, mfu)).hours
        assert hours.low == hours.high
        assert hours.low / unit == pytest.approx(figure, rel=0.02)  # they are known to two figures


def test_a_range_of_mfu_gives_a_range_of_everything() -> None:
    eight = hardware(989.5e12, chips=8, usd=3.0)
    run = plan.plan_run("300m", 1.08e19, eight, plan.Range(0.2, 0.4))
    assert run.hours.high == pytest.approx(2 * run.hours.low)
    assert run.chip_hours.low == pytest.approx(7.579, abs=0.001)  # one chip's hours, whatever the number of chips
    assert run.usd is not None and run.usd.high == pytest.approx(2 * 7.579 * 3, abs=0.01)
    assert run.hardware_flops.low == pytest.approx(1.08e19 / 0.4)


def test_the_ladder_adds_up_and_has_a_price_only_where_every_run_has() -> None:
    priced = hardware(989.5e12, usd=2.0)
    runs = [plan.plan_run(name, LADDER[name].budget_flops, priced, plan.Range(0.4, 0.4)) for name in ("30m", "75m")]
    ladder = plan.plan_ladder(runs)
    assert ladder.model_flops == pytest.approx(1.08e17 + 6.75e17)
    assert ladder.hours.low == pytest.approx((4.548 + 28.42) / 60, rel=1e-3)
    assert ladder.usd is not None and ladder.usd.low == pytest.approx(2 * ladder.chip_hours.low)
    assert plan.plan_ladder([runs[0], plan.plan_run("75m", 6.75e17, H100)]).usd is None
    with pytest.raises(ValueError):
        plan.plan_ladder([])


@pytest.mark.parametrize("mfu", [0.0, -0.1, 1.01, float("nan")])
def test_an_impossible_mfu_is_refused(mfu: float) -> None:
    with pytest.raises(ValueError, match="MFU"):
        plan.training_seconds(1e17, chips=1, peak_flops_per_second=1e15, mfu=mfu)


def test_a_cpu_has_no_planned_hours() -> None:
    cpu = HardwareSpec(Accelerator("cpu", "cpu", None, "", None, None, "cpu"), chips=1, hosts=1)
    with pytest.raises(SpeedrunError, match="measure"):
        plan.plan_run("micro_1", 4e11, cpu)


@given(st.floats(1e10, 1e25), st.integers(1, 4096), st.floats(1e12, 1e16), st.floats(0.01, 1.0))
def test_hardware_flops_times_mfu_are_model_flops(flops: float, chips: int, peak: float, mfu: float) -> None:
    run = plan.plan_run("any", flops, hardware(peak, chips=chips), plan.Range(mfu, mfu))
    assert run.hardware_flops.low * mfu == pytest.approx(flops)


def test_why_six_n_overstates_the_smallest_rung() -> None:
    # 30m: 33,784,960 parameters, of which 128,256 x 128 are looked up, not multiplied.
    shape = {"hidden_dim": 128, "num_heads": 2, "num_layers": 4, "sequence_length": 1024}
    model = 3 * conventions.llama_forward_flops_per_token(
        **shape, intermediate_dim=448, num_kv_heads=2, vocab_size=128_256
    )
    rule = plan.rule_of_thumb(
        parameters=33_784_960,
        lookup_parameters=128_256 * 128,
        attention_flops_per_token=3 * 4 * (4 * 1024 * 128),
        model_flops_per_token=model,
    )
    assert rule.six_n_over_model_flops == pytest.approx(1.83, abs=0.005)
    assert rule.input_embedding == 6 * 128_256 * 128
    # Nine norms of 128 at 6 FLOPs a parameter, less the softmax: 3 passes x 4 layers x 3 S H.
    assert rule.other == 6 * 9 * 128 - 3 * 4 * 3 * 1024 * 2
    assert rule.six_n - rule.input_embedding + rule.attention - rule.other == pytest.approx(rule.model_flops)
