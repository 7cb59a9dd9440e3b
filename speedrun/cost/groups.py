"""Which parameters an optimizer puts in which group.

Levanter's Muon and its kin find matrices by looking for haliax ``Linear`` modules, and route by parts of
names. On another layout they apply Adam without a word. So the groups are read off the optimizer as it is
really built, and shown before a run.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import equinox as eqx
import haliax as hax
import jax
import optax
from levanter.trainer_state import init_optimizer_for_trainables, trainables_only

from speedrun.cost import abstract
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError, in_one_line

LAYER_AXES = ("layer", "layers")
"""Names of the axis along which a model stacks its layers; it makes no matrix out of a vector."""


@dataclass(frozen=True)
class ParameterGroup:
    """One parameter and the optimizer's group that it falls in."""

    path: str
    """Where it stands in the model, with dots."""
    group: str
    """The optimizer's own label; for an optimizer with one group, the name of its config."""
    axes: tuple[str, ...]
    """Names of its axes; "?" where an array has none."""
    shape: tuple[int, ...]
    is_embedding: bool
    """Whether its size depends on the vocabulary: input embedding and output head."""

    @property
    def count(self) -> int:
        """Number of parameters."""
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether one layer's part of it has two axes or more."""
        return sum(axis not in LAYER_AXES for axis in self.axes) >= 2


def optimizer_groups(workload: Workload) -> list[ParameterGroup]:
    """Every parameter of the model with the group that the optimizer puts it in, in the model's order.

    Raises:
        SpeedrunError: when the optimizer cannot be built on this model, splits its parameters in a way that
            is not seen here, or splits them twice.
    """
    with abstract.trainer_for(workload) as trainer:
        model = abstract.abstract_state(trainer, workload).model
        larger = abstract.abstract_model(workload, vocab_size=2 * workload.vocab_size)
        parameters = trainables_only(model, True)
        labels = _labels(workload, parameters)
    of_larger = [_shape(leaf) for _, leaf in _leaves(trainables_only(larger, True))]
    return [
        ParameterGroup(
            path=jax.tree_util.keystr(path, simple=True, separator="."),
            group=label,
            axes=tuple(axis.name for axis in leaf.axes) if _is_named(leaf) else ("?",) * len(leaf.shape),
            shape=_shape(leaf),
            is_embedding=_shape(leaf) != other,
        )
        for (path, leaf), label, other in zip(_leaves(parameters), labels, of_larger, strict=True)
    ]


def matrices_left_out(groups: Sequence[ParameterGroup]) -> list[ParameterGroup]:
    """Hidden matrices that share their group with vectors, though the optimizer has other groups too.

    A matrix optimizer gives its vectors to a plain rule: a matrix that went with them got that rule as well,
    which is how experts or a layer of another kind silently miss the method. Empty for an optimizer with one
    group.
    """
    plain = {parameter.group for parameter in groups if not parameter.is_matrix}
    if len({parameter.group for parameter in groups}) == 1:
        return []
    return [
        parameter
        for parameter in groups
        if parameter.is_matrix and not parameter.is_embedding and parameter.group in plain
    ]


def _labels(workload: Workload, parameters: Any) -> list[str]:
    """The label of each parameter, from the optimizer as it initialises itself on shapes."""
    name = type(workload.optimizer).__name__
    seen: list[Any] = []
    with _splits_recorded(seen):
        optimizer = workload.optimizer.build(workload.steps)
        try:
            state = eqx.filter_eval_shape(init_optimizer_for_trainables, optimizer, parameters)
        except Exception as error:
            raise SpeedrunError(f"{name} cannot start on this model: {in_one_line(error)}") from error
    is_split = any(map(_is_of_groups, jax.tree.leaves(state, is_leaf=_is_of_groups)))
    if not seen and hasattr(workload.optimizer, "create_mask"):
        seen.append(workload.optimizer.create_mask(parameters))
    if is_split and not seen:
        raise SpeedrunError(
            f"{name} splits its parameters into groups, but not through optax.multi_transform or create_mask: give "
            "its config a create_mask(params) that returns the labels"
        )
    if not seen:
        return [name] * len(_leaves(parameters))
    whole = [_spread(labels, parameters) for labels in seen]
    if any(labels != whole[0] for labels in whole):
        raise SpeedrunError(f"{name} splits its parameters {len(seen)} times over, in different ways")
    return whole[0]


def _is_of_groups(node: Any) -> bool:
    return isinstance(node, optax.MultiTransformState)


@contextlib.contextmanager
def _splits_recorded(seen: list[Any]) -> Iterator[None]:
    """Within, every optax optimizer made of groups puts the labels of its parameters into ``seen``."""
    original = optax.multi_transform

    def recording(transforms: Any, param_labels: Any, **options: Any) -> Any:
        inner = original(transforms, param_labels, **options)

        def init(params: Any) -> Any:
            seen.append(param_labels(params) if callable(param_labels) else param_labels)
            return inner.init(params)

        return optax.GradientTransformationExtraArgs(init, inner.update)

    with contextlib.ExitStack() as patches:
        for name in ("multi_transform", "partition"):
            if hasattr(optax, name):
                patches.enter_context(mock.patch.object(optax, name, recording))
        yield


def _spread(labels: Any, parameters: Any) -> list[str]:
    """One label for each parameter: a label in ``labels`` may stand for a whole subtree."""
    spread: list[str] = []
    jax.tree.map(lambda label, subtree: spread.extend([str(label)] * len(_leaves(subtree))), labels, parameters)
    return spread


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    """(path, array) of each array."""
    return jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_named)[0]


def _is_named(node: Any) -> bool:
    return isinstance(node, hax.NamedArray)


def _shape(leaf: Any) -> tuple[int, ...]:
    return tuple(leaf.array.shape if _is_named(leaf) else leaf.shape)
