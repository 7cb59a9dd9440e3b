"""The FLOPs counter against sums done by hand."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from speedrun.cost import jaxpr
from speedrun.cost.jaxpr import count_flops
from speedrun.errors import SpeedrunError

M, K, N = 4, 8, 16
LEFT, RIGHT, SQUARE = jnp.ones((M, K)), jnp.ones((K, N)), jnp.ones((M, M))
MATMUL = 2 * M * K * N
SQUARE_MATMUL = 2 * M**3


def test_a_matrix_multiplication_and_its_gradient() -> None:
    assert count_flops(jnp.dot, LEFT, RIGHT).flops == MATMUL
    gradient = jax.grad(lambda a, b: jnp.sum((a @ b) ** 2), argnums=(0, 1))
    assert count_flops(gradient, LEFT, RIGHT).flops == 3 * MATMUL
    # The constant operand of the sum needs no gradient.
    assert count_flops(jax.grad(lambda a: jnp.sum((a @ RIGHT) ** 2)), LEFT).flops == 2 * MATMUL


def test_batched_contractions_count_every_batch() -> None:
    assert count_flops(
        lambda a, b: jnp.einsum("bmk,bkn->bmn", a, b), jnp.ones((3, M, K)), jnp.ones((3, K, N))
    ).flops == (3 * MATMUL)


def test_elementwise_work_stands_apart() -> None:
    count = count_flops(lambda a, b: jnp.tanh(a @ b) + 1.0, LEFT, RIGHT)
    assert (count.flops, count.elementwise) == (MATMUL, 2 * M * N)
    assert count_flops(lambda i: i * 2 + 1, jnp.arange(5)).elementwise == 0  # integers are no FLOPs


def test_what_nothing_uses_is_left_out() -> None:
    assert count_flops(lambda a, b: (a @ b, a)[1], LEFT, RIGHT).flops == 0


def test_data_types_are_told_apart() -> None:
    def both(a: jax.Array, b: jax.Array) -> jax.Array:
        return (a @ b) + (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    assert count_flops(both, LEFT, RIGHT).by_dtype == {"float32": MATMUL, "bfloat16": MATMUL}


def test_a_scan_counts_its_length() -> None:
    def layers(x: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda carry, weight: (carry @ weight, None), x, weights)[0]

    weights = jnp.ones((5, M, M))
    assert count_flops(layers, SQUARE, weights).flops == 5 * SQUARE_MATMUL
    gradient = jax.grad(lambda x, w: layers(x, w).sum(), argnums=(0, 1))
    assert count_flops(gradient, SQUARE, weights).flops == 3 * 5 * SQUARE_MATMUL


def test_recomputation_is_counted() -> None:
    def layers(x: jax.Array, weights: jax.Array) -> jax.Array:
        body = jax.checkpoint(lambda carry, weight: (jnp.sin(carry @ weight) @ weight, None))
        return jax.lax.scan(body, x, weights)[0].sum()

    gradient = jax.grad(layers, argnums=(0, 1))
    # Two products forward, four backward; of the recomputation only the first, since nobody needs the second.
    assert count_flops(gradient, SQUARE, jnp.ones((5, M, M))).flops == 5 * (6 + 1) * SQUARE_MATMUL


def test_a_while_counts_its_trips() -> None:
    def repeat(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 2, c[1] @ c[1]), (jnp.int32(0), x))[1]

    assert count_flops(repeat, SQUARE).flops == 4 * SQUARE_MATMUL  # 0, 2, 4, 6


def test_loops_whose_bound_is_the_outer_trip_are_followed() -> None:
    """The shape of a causal flash attention: row block i meets column blocks 0 to i."""

    def row(i: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: c[0] < i + 1, lambda c: (c[0] + 1, c[1] @ c[1]), (jnp.int32(0), x))[1]

    def by_while(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, row(c[0], c[1])), (jnp.int32(0), x))[1]

    def by_scan(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 4, row, x)

    for blocks in (by_while, by_scan):
        count = count_flops(blocks, SQUARE)
        assert (count.flops, count.is_lower_bound) == ((1 + 2 + 3 + 4) * SQUARE_MATMUL, False)


def test_a_loop_that_depends_on_data_makes_a_lower_bound() -> None:
    def until_small(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda y: y.sum() > 1, lambda y: y @ y, x @ x)

    count = count_flops(until_small, SQUARE)
    assert (count.flops, count.is_lower_bound) == (SQUARE_MATMUL, True)
    assert [f"{SQUARE_MATMUL:.3g} FLOPs a trip" in note for note in count.endless] == [True]


def test_branches() -> None:
    def branch(index: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.switch(index, [lambda y: y, lambda y: y @ y, lambda y: y @ y @ y], x)

    assert count_flops(lambda x: branch(jnp.int32(1), x), SQUARE).guessed == frozenset()
    count = count_flops(branch, jnp.int32(1), SQUARE)
    assert (count.flops, len(count.guessed), count.is_lower_bound) == (2 * SQUARE_MATMUL, 1, False)
    alike = count_flops(lambda p, x: jax.lax.cond(p, lambda y: y @ y, lambda y: y.T @ y, x), True, SQUARE)
    assert (alike.flops, alike.guessed) == (SQUARE_MATMUL, frozenset())


def test_custom_derivatives() -> None:
    @jax.custom_vjp
    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return a @ b

    # A backward pass that computes the forward once more, as fused losses do.
    product.defvjp(lambda a, b: (a @ b, (a, b)), lambda kept, g: ((g * (kept[0] @ kept[1])) @ kept[1].T, kept[0].T @ g))
    assert count_flops(product, LEFT, RIGHT).flops == MATMUL
    gradient = jax.value_and_grad(lambda a, b: product(a, b).sum(), argnums=(0, 1))
    assert count_flops(gradient, LEFT, RIGHT).flops == 4 * MATMUL


def test_of_a_version_for_each_platform_the_general_one_is_counted() -> None:
    def product(x: jax.Array) -> jax.Array:
        return jax.lax.platform_dependent(x, cpu=lambda x: x @ x @ x, default=lambda x: x @ x)

    count = count_flops(product, SQUARE)
    assert count.flops == SQUARE_MATMUL
    assert not count.guessed
    # The same of its derivative: two products for the one.
    assert count_flops(jax.grad(lambda x: product(x).sum()), SQUARE).flops == 2 * SQUARE_MATMUL


def test_ragged_dot_multiplies_each_row_once_however_many_groups() -> None:
    rows, groups = jnp.ones((12, K)), jnp.ones((3, K, N))
    sizes = jnp.array([2, 7, 3])

    def experts(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.ragged_dot(x, w, sizes)

    assert count_flops(experts, rows, groups).flops == 2 * 12 * K * N
    gradient = jax.grad(lambda x, w: (experts(x, w) ** 2).sum(), argnums=(0, 1))
    assert count_flops(gradient, rows, groups).flops == 3 * 2 * 12 * K * N


def test_convolutions_count_kernel_and_groups() -> None:
    signal = jnp.ones((2, 6, 10))  # batch, channels, positions

    def convolve(kernel: jax.Array, groups: int) -> float:
        return count_flops(
            lambda x: jax.lax.conv_general_dilated(x, kernel, (1,), "SAME", feature_group_count=groups), signal
        ).flops

    assert convolve(jnp.ones((4, 6, 3)), 1) == 2 * (2 * 4 * 10) * 6 * 3
    assert convolve(jnp.ones((6, 1, 3)), 6) == 2 * (2 * 6 * 10) * 3  # depthwise


def test_fourier_transforms() -> None:
    complex_points = jnp.ones((3, 64), jnp.complex64)
    assert count_flops(jnp.fft.fft, complex_points).flops == 3 * 5 * 64 * 6
    assert count_flops(jnp.fft.rfft, jnp.ones((3, 64))).flops == 3 * 2.5 * 64 * 6
    assert count_flops(jnp.fft.irfft, jnp.ones((3, 33), jnp.complex64)).flops == 3 * 2.5 * 64 * 6


def test_factorisations() -> None:
    matrix = jnp.ones((2, 6, 6))
    assert count_flops(jnp.linalg.cholesky, matrix).flops == 2 * 6**3 / 3
    assert count_flops(lambda a: jnp.linalg.qr(a)[1], matrix).flops >= 2 * (4 / 3) * 6**3


def test_shard_map_counts_every_shard() -> None:
    mesh = jax.sharding.AbstractMesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    rows = {"in_specs": (jax.P("data", None), jax.P()), "out_specs": jax.P("data", None)}
    # Replicated over "model" where that axis is handled by hand too: both of its shards do the work.
    assert count_flops(jax.shard_map(jnp.dot, mesh=mesh, **rows, check_vma=False), LEFT, RIGHT).flops == 2 * MATMUL
    by_hand = jax.shard_map(jnp.dot, mesh=mesh, **rows, axis_names={"data"}, check_vma=False)
    assert count_flops(by_hand, LEFT, RIGHT).flops == MATMUL


def test_what_cannot_be_seen_into_is_listed() -> None:
    callback = count_flops(lambda x: jax.pure_callback(lambda y: y, x, x) @ x, SQUARE)
    assert (callback.flops, callback.is_lower_bound) == (SQUARE_MATMUL, True)
    eigenvalues = count_flops(lambda x: jnp.linalg.eigh(x)[0], SQUARE)
    assert [note.startswith("eigh") for note in eigenvalues.opaque] == [True]
    foreign = jax.ffi.ffi_call("a_kernel", jax.ShapeDtypeStruct((M, M), jnp.float32))
    assert [note.startswith("ffi_call a_kernel") for note in count_flops(foreign, SQUARE).opaque] == [True]


def test_kernels_count_as_declared_or_not_at_all() -> None:
    def kernel(x_ref, out_ref) -> None:  # noqa: ANN001 - references of pallas
        out_ref[...] = x_ref[...] @ x_ref[...]

    shape = jax.ShapeDtypeStruct((M, M), jnp.float32)
    silent = pl.pallas_call(kernel, out_shape=shape)
    assert count_flops(silent, SQUARE).is_lower_bound
    cost = pl.CostEstimate(flops=SQUARE_MATMUL, bytes_accessed=0, transcendentals=0)
    count = count_flops(pl.pallas_call(kernel, out_shape=shape, cost_estimate=cost), SQUARE)
    assert (count.flops, count.is_lower_bound, len(count.declared)) == (SQUARE_MATMUL, False, 1)


def test_another_shape_of_jaxpr_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxpr, "KNOWN_JAX_VERSIONS", ("0.4.2",))
    monkeypatch.setitem(jaxpr.CALLS, "jit", "no_such_parameter")
    with pytest.raises(SpeedrunError, match=r"install jax==0\.4\.2"):
        count_flops(jax.jit(jnp.dot), LEFT, RIGHT)
