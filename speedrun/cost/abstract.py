"""A candidate as shapes: Levanter's own trainer, state and batch, with nothing allocated.

Every meter that needs jax starts here, so that all of them see the model, the loss and the training step
that the run itself would use.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import jmp
import levanter.tracker
from haliax.partitioning import ResourceAxis
from levanter.layers.attention import AttentionMask
from levanter.models.lm_model import LmExample, LmHeadModel
from levanter.tracker.tracker import NoopTracker
from levanter.trainer import Trainer, TrainerConfig
from levanter.trainer_state import TrainerState
from levanter.utils.mesh import MeshConfig, create_mesh_from_axis_specs

from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError, in_one_line


class DevicesTrainerConfig(TrainerConfig):
    """A trainer config whose mesh spans given devices (present or not) instead of all of this process's."""

    devices: Sequence[Any] = ()

    @property
    def device_mesh(self) -> jax.sharding.Mesh:
        ici, dcn = self.mesh.axis_shapes(len(self.devices), 1)
        kind = jax.sharding.AxisType.Explicit if self.use_explicit_mesh_axes else jax.sharding.AxisType.Auto
        names = list(ici) + [name for name in dcn if name not in ici]
        return create_mesh_from_axis_specs(
            ici_axes=ici, dcn_axes=dcn, devices=list(self.devices), axis_types=(kind,) * len(names)
        )

    @functools.cached_property
    def num_slices(self) -> int:
        return 1

    @functools.cached_property
    def _mesh_axis_totals(self) -> dict[str, int]:
        ici, dcn = self.mesh.axis_shapes(len(self.devices), 1)
        return {name: ici.get(name, 1) * dcn.get(name, 1) for name in {*ici, *dcn}}


def training_mesh() -> MeshConfig:
    """Marin's standard mesh: data parallel over all chips, with parameters and optimizer state sharded too.

    ``token`` and ``token_repeat`` are the axes of a mixture of experts' dispatch.
    """
    tokens = [ResourceAxis.REPLICA_DCN, ResourceAxis.REPLICA, ResourceAxis.DATA]
    return MeshConfig(
        axes={"replica": 1, "data": -1, "model": 1}, compute_mapping={"token": tokens, "token_repeat": tokens}
    )


@contextlib.contextmanager
def trainer_for(
    workload: Workload, devices: Sequence[Any] | None = None, *, collect_logs: bool = True
) -> Iterator[Trainer]:
    """Levanter's trainer for ``workload`` on ``devices`` (one device of this process by default), entered.

    What a model logs from inside its loss is collected and dropped. With ``collect_logs=False`` it goes
    through a host callback, as Levanter's trainer has it, and such a callback has no derivative.
    """
    config = DevicesTrainerConfig(
        id="cost",
        mp=_precision(workload.precision),
        train_batch_size=workload.batch_size,
        num_train_steps=workload.steps,
        require_accelerator=False,
        mesh=training_mesh(),
        use_explicit_mesh_axes=workload.model.requires_explicit_mesh_axes,
    )
    config.devices = list(devices or jax.devices()[:1])

    def loss(model: LmHeadModel, example: LmExample, *, key: Any = None) -> Any:
        # As levanter.main.train_lm has it.
        return model.compute_next_token_loss(example, key=key, logsumexp_weight=workload.z_loss_weight), {}

    collecting = levanter.tracker.defer_tracker_for_jit() if collect_logs else contextlib.nullcontext()
    with levanter.tracker.current_tracker(NoopTracker()):
        trainer = Trainer(config, _built_optimizer(workload), loss, add_default_hooks=False)
        with trainer, collecting:
            yield trainer


def abstract_state(trainer: Trainer, workload: Workload) -> TrainerState:
    """The trainer's state as shapes: model, optimizer state, step and random key.

    Raises:
        SpeedrunError: when the model or the optimizer cannot be built from its config.
    """
    vocabulary = hax.partitioning.round_axis_for_partitioning(
        hax.Axis("vocab", workload.vocab_size), trainer.parameter_axis_mapping
    )

    def initialise(key: Any) -> TrainerState:
        model = workload.model.build(vocabulary, key=key)
        return TrainerState.init(trainer.optimizer, model, key=key, is_trainable=True, mp=trainer.mp)

    try:
        return eqx.filter_eval_shape(initialise, jax.eval_shape(lambda: jax.random.PRNGKey(0)))
    except Exception as error:
        raise SpeedrunError(
            f"{type(workload.model).__name__} with {type(workload.optimizer).__name__} cannot be built: "
            f"{in_one_line(error)}"
        ) from error


def abstract_model(workload: Workload, *, vocab_size: int | None = None) -> LmHeadModel:
    """The model alone, as shapes; with another vocabulary where one is given."""
    vocabulary = hax.Axis("vocab", vocab_size or workload.vocab_size)
    return eqx.filter_eval_shape(workload.model.build, vocabulary, key=jax.eval_shape(lambda: jax.random.PRNGKey(0)))


def abstract_batch(workload: Workload, *, chips: int = 1) -> LmExample:
    """A batch of packed documents as shapes: tokens, loss weights, and a causal mask with document numbers.

    Levanter's loader fills a batch up to a multiple of the number of chips, and so does this.
    """
    axes = (
        hax.Axis("batch", math.ceil(workload.batch_size / chips) * chips),
        workload.model.max_Pos.resize(workload.sequence_length),
    )

    def array(dtype: Any) -> hax.NamedArray:
        return hax.NamedArray(jax.ShapeDtypeStruct(tuple(axis.size for axis in axes), dtype), axes)

    mask = AttentionMask.causal().with_segment_ids(array(jnp.int32))
    return LmExample(tokens=array(jnp.int32), loss_weight=array(jnp.float32), attn_mask=mask)


def loss_function(trainer: Trainer) -> Callable[[Any, Any], Any]:
    """(model, batch) -> loss, at the trainer's precision."""
    return lambda model, batch: trainer.loss_fn(model, batch, key=None)[0]


def gradient_function(trainer: Trainer) -> Callable[[Any, Any], Any]:
    """(state, batch) -> loss and gradients, as the trainer's step computes them."""

    def gradients(state: TrainerState, batch: LmExample) -> Any:
        loss, grads, _ = trainer._compute_gradients_microbatched(
            trainer.loss_fn, state.model, batch, key=state.training_key
        )
        return loss, grads

    return gradients


def step_function(trainer: Trainer) -> Callable[[Any, Any], Any]:
    """(state, batch) -> new state and loss: Levanter's own training step."""

    def step(state: TrainerState, batch: LmExample) -> Any:
        with hax.axis_mapping(trainer.parameter_axis_mapping):
            return trainer._train_step(state, (batch,), {}, _no_hooks=True)

    return step


def on_arrays(function: Callable[..., Any], *trees: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """``function`` as one of the shapes in ``trees`` alone, whatever else they hold, and those shapes."""
    parts = [eqx.partition(tree, is_shape) for tree in trees]

    def of_arrays(*dynamic: Any) -> Any:
        whole = [eqx.combine(arrays, static) for arrays, (_, static) in zip(dynamic, parts, strict=True)]
        return eqx.filter(function(*whole), eqx.is_array)

    return of_arrays, tuple(dynamic for dynamic, _ in parts)


def is_shape(leaf: Any) -> bool:
    """Whether ``leaf`` stands for an array."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _built_optimizer(workload: Workload) -> Any:
    try:
        return workload.optimizer.build(workload.steps)
    except Exception as error:
        raise SpeedrunError(
            f"{type(workload.optimizer).__name__} cannot be built for {workload.steps} steps: {in_one_line(error)}"
        ) from error


def _precision(policy: str) -> jmp.Policy:
    try:
        return jmp.get_policy(policy)
    except Exception as error:
        raise SpeedrunError(
            f"{policy!r} is no precision: write it as 'p=f32,c=bfloat16' (parameters, computation)"
        ) from error
