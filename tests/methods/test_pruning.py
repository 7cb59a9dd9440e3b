"""Pruning against the same mathematics written down once more in numpy, step by step."""

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedrun.methods.pruning import PrunedAdamConfig, kth_smallest, pruned, schedule, weights_of, zeros

RATE, BETA1, BETA2, EPSILON, SCORE_BETA2 = 0.05, 0.9, 0.95, 1e-8, 0.99
SHAPES = ((3, 7), (1, 11), (5, 2))


class Model(eqx.Module):
    """Three linear layers of odd shapes, and what must never be pruned."""

    layers: list[hax.nn.Linear]
    norm: hax.NamedArray
    table: hax.NamedArray


def make_model(seed: int) -> Model:
    random = np.random.default_rng(seed)

    def array(*shape: int) -> jax.Array:
        return jnp.array(random.normal(size=shape), jnp.float32)

    layers = []
    for at, (out, into) in enumerate(SHAPES):
        axes = (hax.Axis(f"out{at}", out), hax.Axis(f"in{at}", into))
        weight, bias = hax.named(array(out, into), axes), hax.named(array(out), axes[0])
        layers.append(hax.nn.Linear(weight=weight, bias=bias, In=axes[1], Out=axes[0]))
    table = hax.named(array(4, 3), (hax.Axis("vocab", 4), hax.Axis("embed", 3)))
    return Model(layers, hax.named(array(6), hax.Axis("norm", 6)), table)


def flat(tree: Model) -> np.ndarray:
    return np.concatenate([np.asarray(weight.array, np.float32).ravel() for weight in weights_of(tree)])


def in_numpy(score: str, shares: dict[int, float], steps: int) -> list[np.ndarray]:
    """The weights of the linear layers after each step."""
    w = flat(make_model(0))
    m, v, f = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    live = np.ones(len(w), bool)
    after = []
    for t in range(1, steps + 1):
        g = flat(make_model(t))
        m, v, f = (
            BETA1 * m + (1 - BETA1) * g,
            BETA2 * v + (1 - BETA2) * g**2,
            SCORE_BETA2 * f + (1 - SCORE_BETA2) * g**2,
        )
        w = w - RATE * (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPSILON)
        w[~live] = 0
        if t in shares:
            s = np.abs(w) * (f + 1e-8) ** 0.25 if score == "fim" else np.abs(w)
            k = int(shares[t] * len(w))
            live &= s > np.sort(s)[k - 1] if k else True
        w, m, v, f = w * live, m * live, v * live, f * live
        after.append(w.copy())
    return after


@pytest.mark.parametrize("score", ["fim", "magnitude"])
def test_it_agrees_with_numpy_and_never_revives_a_weight(score: str) -> None:
    shares = {2: 0.1, 4: 0.3, 5: 0.55, 8: 0.8}
    expected = in_numpy(score, shares, 10)
    adam = optax.chain(optax.scale_by_adam(BETA1, BETA2, EPSILON), optax.scale(-RATE))
    optimizer = pruned(adam, shares, score, SCORE_BETA2)
    model = make_model(0)
    state = optimizer.init(model)
    step = jax.jit(optimizer.update)
    dead = np.zeros(len(expected[0]), bool)
    for t in range(1, 11):
        updates, state = step(make_model(t), state, model)
        model = optax.apply_updates(model, updates)
        found = flat(model)
        np.testing.assert_allclose(found, expected[t - 1], rtol=2e-5, atol=1e-6)
        assert not found[dead].any()
        dead = found == 0
        share = max((share for at, share in shares.items() if at <= t), default=0)
        assert dead.sum() == int(share * (21 + 11 + 10))
        moments = state.inner[0]
        for moment in (moments.mu, moments.nu):
            assert not flat(moment)[dead].any()
            assert flat(moment)[~dead].all()
    assert zeros(model).value == 33 / 42
    # What is no linear layer's weight got Adam's own update.
    dense, dense_state = make_model(0), adam.init(make_model(0))
    for t in range(1, 11):
        updates, dense_state = adam.update(make_model(t), dense_state, dense)
        dense = optax.apply_updates(dense, updates)
    np.testing.assert_allclose(model.table.array, dense.table.array, rtol=1e-5)
    np.testing.assert_allclose(model.norm.array, dense.norm.array, rtol=1e-5)
    np.testing.assert_allclose(model.layers[0].bias.array, dense.layers[0].bias.array, rtol=1e-5)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0, 2.0**100, width=32, allow_subnormal=False), min_size=1, max_size=30).flatmap(
        lambda values: st.tuples(st.just(values), st.integers(1, len(values)), st.integers(0, len(values)))
    )
)
def test_the_threshold_is_the_sorted_one(case: tuple[list[float], int, int]) -> None:
    values, k, cut = case
    whole = np.array(values, np.float32)
    found = kth_smallest([jnp.array(whole[:cut]), jnp.array(whole[cut:])], jnp.int32(k))
    assert np.asarray(found) == np.sort(whole)[k - 1]


def test_the_ramp_starts_slowly_and_ends_at_the_target() -> None:
    # 20 updates between steps 1,000 and 3,000, as the source's GPT-2 runs have it: every 100 steps.
    ramp = schedule(0.5, 1000, 3000, 20)
    assert list(ramp)[:2] == [1100, 1200]
    assert ramp[2000] == 0.5 / 8
    assert ramp[3000] == 0.5
    assert len(ramp) == 20


def test_a_short_run_reaches_its_target_too() -> None:
    assert schedule(0.9, 0, 3, 20) == pytest.approx({1: 0.9 / 27, 2: 0.9 * 8 / 27, 3: 0.9})


def test_a_model_without_linear_layers_is_refused() -> None:
    optimizer = PrunedAdamConfig().build(100)
    with pytest.raises(ValueError, match="haliax linear layers"):
        optimizer.init({"raw": jnp.ones((4, 4))})
