"""FLOPs of a jaxpr: every equation, inner ones as often as they run.

XLA's own ``cost_analysis`` counts the body of a loop once, whatever its trip count, and so is 8 to 15 times
too low on a transformer that scans over its layers. Here a ``scan`` counts its length and a ``while`` its
real number of trips, found by following the integers that decide it (so a causal flash attention that skips
blocks is counted without them).

What cannot be counted is listed, never guessed: custom calls, kernels without a cost, loops whose trip count
depends on data. A count with such entries is a lower bound. Where a branch depends on data the costliest is
counted, and that is listed too.

Written for the jaxprs of jax 0.11.1; another shape of jaxpr is an error that says so.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jax.interpreters.partial_eval import dce_jaxpr

from speedrun.cost.primitives import CALLS, CONTRACTIONS, elementwise_flops
from speedrun.errors import SpeedrunError

KNOWN_JAX_VERSIONS = ("0.11.1",)

MOST_TRIPS = 1_000_000
"""A loop that still runs after so many trips counts as one whose trip count is unknown."""

MOST_TRIPS_FOLLOWED = 4_096
"""Loops whose trips differ in cost are followed trip by trip, up to so many."""

Known = int | None
"""The value of an integer scalar where it does not depend on data, else None."""


class Contraction(NamedTuple):
    """A kind of matrix multiplication, or of the like: what it is and what it is done on."""

    primitive: str
    dtype: str
    """The wider of the operands' types: a mixed product is computed in it."""
    left: tuple[int, ...]
    """Shape of the left operand."""
    right: tuple[int, ...]
    """Shape of the right operand; empty where there is none."""


@dataclass(frozen=True)
class Count:
    """FLOPs of some computation."""

    contractions: Mapping[Contraction, float] = field(default_factory=dict)
    """FLOPs of each kind of contraction, however often it is done."""
    elementwise: float = 0.0
    """Element-by-element operations and reductions on floating-point numbers, one FLOP an element."""
    opaque: frozenset[str] = frozenset()
    """Operations whose FLOPs cannot be known: they are not in the count."""
    endless: frozenset[str] = frozenset()
    """Loops whose number of trips depends on data: they are not in the count."""
    guessed: frozenset[str] = frozenset()
    """Branches that depend on data: the costliest is in the count."""
    declared: frozenset[str] = frozenset()
    """Kernels whose FLOPs are in the count as their author declares them."""

    @property
    def flops(self) -> float:
        """All contractions; the figure that model FLOPs are made of."""
        return math.fsum(self.contractions.values())

    @property
    def is_lower_bound(self) -> bool:
        """Whether something could not be counted."""
        return bool(self.opaque or self.endless)

    @property
    def by_dtype(self) -> dict[str, float]:
        """Contractions by data type."""
        totals: Counter[str] = Counter()
        for kind, flops in self.contractions.items():
            totals[kind.dtype] += flops
        return dict(totals)

    def __add__(self, other: "Count") -> "Count":
        return Count(
            contractions=Counter(self.contractions) + Counter(other.contractions),
            elementwise=self.elementwise + other.elementwise,
            opaque=self.opaque | other.opaque,
            endless=self.endless | other.endless,
            guessed=self.guessed | other.guessed,
            declared=self.declared | other.declared,
        )

    def __mul__(self, times: float) -> "Count":
        scaled = {key: flops * times for key, flops in self.contractions.items()}
        return Count(scaled, self.elementwise * times, self.opaque, self.endless, self.guessed, self.declared)


def count_flops(function: Callable[..., Any], *arguments: Any) -> Count:
    """Trace ``function`` on ``arguments`` (arrays or shapes) and count what it would compute.

    Results that nothing uses are left out, as a compiler leaves them out.

    Raises:
        SpeedrunError: if this jax writes its jaxprs in a way that is not known here.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    live, _ = dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars), instantiate=True)
    return count_jaxpr(live)


def count_jaxpr(jaxpr: Jaxpr) -> Count:
    """Count what one evaluation of ``jaxpr`` computes.

    Raises:
        SpeedrunError: see ``count_flops``.
    """
    try:
        return _walk(jaxpr, [None] * len(jaxpr.invars))[0]
    except (AttributeError, KeyError, TypeError, IndexError) as error:
        if jax.__version__ in KNOWN_JAX_VERSIONS:
            raise
        raise SpeedrunError(
            f"the jaxprs of jax {jax.__version__} differ from those of {', '.join(KNOWN_JAX_VERSIONS)}, which this "
            f"counter knows ({type(error).__name__}: {error}); install jax=={KNOWN_JAX_VERSIONS[-1]}"
        ) from error


def _walk(jaxpr: Jaxpr, arguments: Sequence[Known]) -> tuple[Count, list[Known]]:
    """Count ``jaxpr`` run once on ``arguments``; also the integers that it returns."""
    values: dict[Any, Known] = {}

    def read(variable: Any) -> Known:
        return _as_integer(variable.val) if isinstance(variable, Literal) else values.get(variable)

    values.update(zip(jaxpr.constvars, map(_as_integer, jaxpr.consts), strict=False))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    total = _Sum()
    for equation in jaxpr.eqns:
        inputs = [read(variable) for variable in equation.invars]
        count, outputs = _count_equation(equation, inputs)
        total.add(count)
        values.update(zip(equation.outvars, outputs, strict=True))
    return total.count(), [read(variable) for variable in jaxpr.outvars]


class _Sum:
    """Adds counts in place: a jaxpr has thousands of equations and most of them count next to nothing."""

    def __init__(self) -> None:
        self.elementwise = 0.0
        self.others: list[Count] = []

    def add(self, count: Count | float) -> None:
        if isinstance(count, Count):
            self.others.append(count)
        else:
            self.elementwise += count

    def count(self) -> Count:
        return sum(self.others, Count(elementwise=self.elementwise))


def _count_equation(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count | float, list[Known]]:
    """The count (a bare number means elementwise FLOPs) and the known integers among the results."""
    name = equation.primitive.name
    if name in CONTRACTIONS:
        return Count({_kind(equation): CONTRACTIONS[name](equation)}), [None] * len(equation.outvars)
    if name in CALLS:
        return _walk(equation.params[CALLS[name]], inputs)
    if name in _CONTROL_FLOW:
        return _CONTROL_FLOW[name](equation, inputs)
    flops = elementwise_flops(equation)
    if flops is None:
        return Count(opaque=frozenset({_describe(equation)})), [None] * len(equation.outvars)
    return flops, _fold(equation, inputs)


def _scan(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count, list[Known]]:
    body, length = equation.params["jaxpr"], equation.params["length"]
    constants, carried = (len(part) for part in equation.params["ft_in"].unpack()[:2])
    fixed, carry = inputs[:constants], inputs[constants : constants + carried]
    sliced: list[Known] = [None] * (len(body.invars) - constants - carried)
    stacked: list[Known] = [None] * (len(equation.outvars) - carried)
    count, _ = _walk(body, [*fixed, *[None] * carried, *sliced])
    if _trips_are_alike(count) or length > MOST_TRIPS_FOLLOWED or all(value is None for value in carry):
        return count * length, [*[None] * carried, *stacked]
    total = Count()
    for _ in range(length):
        count, results = _walk(body, [*fixed, *carry, *sliced])
        total, carry = total + count, results[:carried]
    return total, [*carry, *stacked]


def _while(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count, list[Known]]:
    condition, body = equation.params["cond_jaxpr"], equation.params["body_jaxpr"]
    of_condition, rest = _split(inputs, equation.params["cond_nconsts"])
    of_body, carry = _split(rest, equation.params["body_nconsts"])
    unknown: list[Known] = [None] * len(carry)
    count, _ = _walk(body, [*of_body, *unknown])
    trips = _trips(condition, body, of_condition, of_body, carry)
    if trips is None:
        note = f"{_describe(equation)}, {count.flops:.3g} FLOPs a trip"
        return replace(count * 0, endless=count.endless | {note}), unknown
    if _trips_are_alike(count) or trips > MOST_TRIPS_FOLLOWED:
        return count * trips, unknown
    total = Count()
    for _ in range(trips):
        count, carry = _walk(body, [*of_body, *carry])
        total = total + count
    return total, carry


def _trips_are_alike(count: Count) -> bool:
    """Whether a body costs the same on every trip, given its count with nothing known of what is carried.

    It may not where an inner bound or branch hangs on the trip's own number.
    """
    return not (count.endless or count.guessed)


def _trips(
    condition: Jaxpr, body: Jaxpr, of_condition: list[Known], of_body: list[Known], carry: list[Known]
) -> int | None:
    """How often a ``while`` runs, found by running only what decides it; None where that depends on data."""
    needed = _split(dce_jaxpr(condition, [True])[1], len(of_condition))[1]
    while True:
        read = _split(dce_jaxpr(body, needed)[1], len(of_body))[1]
        wider = [old or new for old, new in zip(needed, read, strict=True)]
        if wider == needed:
            break
        needed = wider
    step, _ = dce_jaxpr(body, needed, instantiate=True)
    for trips in range(MOST_TRIPS):
        go_on = _walk(condition, [*of_condition, *carry])[1][0]
        if go_on is None:
            return None
        if not go_on:
            return trips
        results = iter(_walk(step, [*of_body, *carry])[1])
        carry = [next(results) if is_needed else None for is_needed in needed]
    return None


def _split(items: list[Any], at: int) -> tuple[list[Any], list[Any]]:
    return items[:at], items[at:]


def _cond(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count, list[Known]]:
    branches = equation.params["branches"]
    if inputs[0] is not None:
        # Out-of-range indices are clamped by lax.switch itself.
        return _walk(branches[min(max(inputs[0], 0), len(branches) - 1)], inputs[1:])
    platforms = equation.params.get("branches_platforms") or ()
    if None in platforms:
        # One computation with a version for some platforms: the general one is counted, wherever this runs.
        return _walk(branches[platforms.index(None)], inputs[1:])
    counts = [_walk(branch, inputs[1:])[0] for branch in branches]
    costliest = max(counts, key=lambda count: count.flops)
    notes = sum(counts, Count())
    cheapest = min(count.flops for count in counts)
    alike = costliest.flops == cheapest
    guess = (
        frozenset() if alike else frozenset({f"{_describe(equation)}, {cheapest:.3g} to {costliest.flops:.3g} FLOPs"})
    )
    count = Count(
        costliest.contractions,
        max(count.elementwise for count in counts),
        notes.opaque,
        notes.endless,
        notes.guessed | guess,
        notes.declared,
    )
    return count, [None] * len(equation.outvars)


def _shard_map(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count, list[Known]]:
    """The inner jaxpr is one shard's; all shards of the axes that it handles by hand run it."""
    mesh = equation.params["mesh"]
    shards = math.prod(mesh.shape[axis] for axis in equation.params["newly_manual_axes"])
    count, results = _walk(equation.params["jaxpr"], inputs)
    return count * shards, results


def _pallas_call(equation: JaxprEqn, inputs: list[Known]) -> tuple[Count, list[Known]]:
    unknown: list[Known] = [None] * len(equation.outvars)
    cost = equation.params["cost_estimate"]
    if cost is None:
        return Count(opaque=frozenset({_describe(equation)})), unknown
    return Count({_kind(equation): float(cost.flops)}, declared=frozenset({_describe(equation)})), unknown


_CONTROL_FLOW: dict[str, Callable[[JaxprEqn, list[Known]], tuple[Count, list[Known]]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": _shard_map,
    "pallas_call": _pallas_call,
}


def _kind(equation: JaxprEqn) -> Contraction:
    left, *others = [variable.aval for variable in equation.invars[:2]]
    right = others[0] if others else left
    dtype = str(jnp.promote_types(left.dtype, right.dtype))
    return Contraction(equation.primitive.name, dtype, tuple(left.shape), tuple(right.shape) if others else ())


def _describe(equation: JaxprEqn) -> str:
    """The primitive, what it calls, and where in the model it stands."""
    parameters = equation.params
    for key in ("target_name", "call_target_name", "name"):
        if parameters.get(key):
            called = f" {parameters[key]}"
            break
    else:
        called = ""
    scope = str(equation.source_info.name_stack)
    return f"{equation.primitive.name}{called}" + (f" in {scope}" if scope else "")


# Following integers.


def _as_integer(value: Any) -> Known:
    if getattr(value, "shape", ()) != () or isinstance(value, jax.core.Tracer):
        return None
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return int(value) if kind in ("i", "u", "b") or isinstance(value, int) else None


_FOLDED: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "min": min,
    "max": max,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    # Integer division and remainder truncate towards zero, as in C.
    "div": lambda a, b: int(math.copysign(abs(a) // abs(b), a * b)) if b else 0,
    "rem": lambda a, b: int(math.fmod(a, b)) if b else a,
    "clamp": lambda low, value, high: min(max(value, low), high),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.not_,
    "select_n": lambda index, *cases: cases[index],
    "convert_element_type": int,
    "squeeze": int,
    "reshape": int,
    "broadcast_in_dim": int,
    "copy": int,
    "stop_gradient": int,
}


def _fold(equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
    """The value of an integer scalar operation on known integers."""
    unknown: list[Known] = [None] * len(equation.outvars)
    if not inputs or any(value is None for value in inputs):
        return unknown
    result, name = equation.outvars[0].aval, equation.primitive.name
    if getattr(result, "shape", None) != () or result.dtype.kind not in "iub":
        return unknown
    if name not in _FOLDED or (name == "not" and result.dtype.kind != "b"):
        return unknown
    value = int(_FOLDED[name](*inputs))
    limits = (0, 1) if result.dtype.kind == "b" else (jnp.iinfo(result.dtype).min, jnp.iinfo(result.dtype).max)
    return [value] if limits[0] <= value <= limits[1] else unknown  # arithmetic that wraps is not followed
