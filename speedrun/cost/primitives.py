"""FLOPs of single jaxpr equations: what multiplies, what goes element by element, what only moves data.

One multiplication and one addition are two FLOPs. A primitive that stands in none of these tables is
opaque: whoever meets it must say so, not count it as nothing.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from jax.extend.core import JaxprEqn


def _product(sizes: Iterable[int]) -> float:
    return float(math.prod(int(size) for size in sizes))


def _dot(equation: JaxprEqn) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval
    return 2 * _product(equation.outvars[0].aval.shape) * _product(left.shape[axis] for axis in contracted)


def _ragged_dot(equation: JaxprEqn) -> float:
    """Each row is multiplied with one group's matrix, whatever the sizes of the groups.

    The three forms are out[m, n] = left[m, k] right[g, k, n], its gradient for the right operand,
    out[g, k, n] = left[m, k]^T right[m, n] with m cut into groups, and groups that run along a batch axis.
    """
    numbers = equation.params["ragged_dot_dimension_numbers"]
    (contracted, _), (batched, _) = numbers.dot_dimension_numbers
    left, out, groups = equation.invars[0].aval, equation.outvars[0].aval, equation.invars[2].aval.shape[-1]
    dense = 2 * _product(out.shape) * _product(left.shape[axis] for axis in contracted)
    ragged = set(numbers.lhs_ragged_dimensions)
    return dense / groups if ragged & set(contracted) else dense


def _convolution(equation: JaxprEqn) -> float:
    kernel = equation.invars[1].aval.shape
    spec = equation.params["dimension_numbers"].rhs_spec  # (out features, in features of a group, spatial...)
    per_output = _product(kernel[axis] for axis in spec[1:])
    return 2 * _product(equation.outvars[0].aval.shape) * per_output / equation.params["batch_group_count"]


def _fft(equation: JaxprEqn) -> float:
    """5 n log2 n for a complex transform of n points and half of it for a real one (FFTW's own count)."""
    points = _product(equation.params["fft_lengths"])
    real = equation.params["fft_type"].name in ("RFFT", "IRFFT")
    # The real side of a real transform holds whole rows of n points; the other side n / 2 + 1.
    rows = max(_product(aval.shape) for aval in (equation.invars[0].aval, equation.outvars[0].aval)) / points
    return math.floor(rows) * (2.5 if real else 5.0) * points * math.log2(points)


def _cholesky(equation: JaxprEqn) -> float:
    *batch, n, _ = equation.outvars[0].aval.shape
    return _product(batch) * n**3 / 3


def _triangular_solve(equation: JaxprEqn) -> float:
    *batch, rows, columns = equation.invars[1].aval.shape
    n = equation.invars[0].aval.shape[-1]
    return _product(batch) * n * rows * columns


def _householder(equation: JaxprEqn) -> float:
    """2 m n^2 - 2 n^3 / 3 (Golub and Van Loan, Matrix Computations, 5.2), and the same to form Q."""
    *batch, m, n = equation.invars[0].aval.shape
    short = min(m, n)
    flops = _product(batch) * (2 * max(m, n) * short**2 - 2 * short**3 / 3)
    return 2 * flops if equation.primitive.name == "qr" else flops


CONTRACTIONS: dict[str, Callable[[JaxprEqn], float]] = {
    "dot_general": _dot,
    "ragged_dot_general": _ragged_dot,
    "conv_general_dilated": _convolution,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "qr": _householder,
    "geqrf": _householder,
    "householder_product": _householder,
}
"""The work that model FLOPs mean: primitives that combine many elements into each result."""

ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp clz complex conj cos cosh digamma
    div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le le_to lgamma log log1p
    logistic lt lt_to max min mul ne neg nextafter not or population_count pow real rem round rsqrt select_n
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor
    """.split()
)
"""One FLOP an element of the result, when it is a floating-point number."""

REDUCTIONS = frozenset(
    """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or reduce_prod
    reduce_sum reduce_xor reduce_window_max reduce_window_min reduce_window_sum scatter-add scatter-mul scatter-sub
    scatter-max scatter-min sort top_k
    """.split()
)
"""One FLOP an element of the (last) operand, when it is a floating-point number."""

FREE = frozenset(
    """
    after_all all_gather all_gather_invariant all_gather_reduced all_to_all axis_index bitcast_convert_type
    broadcast_in_dim concatenate convert_element_type copy create_token dce_sink debug_callback debug_print
    device_put dynamic_slice dynamic_update_slice empty empty2 gather inspect_sharding iota iota_2x32_shape
    layout_constraint name optimization_barrier pad pbroadcast pcast platform_index pmax pmin ppermute psum
    psum_invariant pvary ragged_all_to_all random_bits random_clone random_fold_in random_seed random_split
    random_unwrap random_wrap reduce_precision reduce_scatter reduced_vary_cast_p relayout reshape reshard rev
    rng_bit_generator rng_uniform scatter sharding_constraint slice split squeeze stack stop_gradient threefry2x32
    threefry4x32 tie tile transpose unstack vary_unreduced_cast_p xla_metadata_value zeros_like
    """.split()
)
"""Moves, casts, communication and random bits: no FLOPs."""

CALLS: dict[str, str] = {
    "closed_call": "call_jaxpr",
    "composite": "jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "eval_jaxpr": "jaxpr",
    "jit": "jaxpr",
    "remat2": "jaxpr",
    "xla_metadata_call": "jaxpr",
}
"""Primitives that run one inner jaxpr once, and the parameter that holds it."""


def elementwise_flops(equation: JaxprEqn) -> float | None:
    """FLOPs of an element-by-element operation or a reduction; 0 for data movement; None if it is neither."""
    name = equation.primitive.name
    if name in FREE or (name == "io_callback" and not equation.outvars):
        return 0.0  # a callback that returns nothing only logs
    if name in ELEMENTWISE:
        return _size_if_inexact(equation.outvars[0].aval)
    if name in REDUCTIONS:
        operand = equation.invars[-1 if name.startswith("scatter") else 0].aval
        return _size_if_inexact(operand)
    return None


def _size_if_inexact(aval: Any) -> float:
    dtype = getattr(aval, "dtype", None)
    return _product(aval.shape) if dtype is not None and getattr(dtype, "kind", "V") in "fcV" else 0.0
