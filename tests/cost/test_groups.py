"""Which optimizer group each parameter falls in."""

import dataclasses

import optax
import pytest
from levanter.models.llama import LlamaConfig
from levanter.models.mixtral import MixtralConfig
from levanter.optim.config import AdamConfig, OptimizerConfig
from levanter.optim.grugmuon import GrugMuonConfig
from levanter.optim.muon import MuonConfig
from levanter.optim.muonh import MuonHConfig
from levanter.optim.namo import NamoConfig

from speedrun.cost.groups import matrices_left_out, optimizer_groups
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError

SHAPE = {
    "max_seq_len": 32,
    "hidden_dim": 64,
    "intermediate_dim": 96,
    "num_layers": 3,
    "num_heads": 4,
    "num_kv_heads": 2,
}
MATRICES = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
EXPERTS = {"w1", "w2", "w3"}


def groups(optimizer: OptimizerConfig, model: type = LlamaConfig):  # noqa: ANN201
    return optimizer_groups(Workload(model(**SHAPE), optimizer, 512, 32, 2))


def module(path: str) -> str:
    return path.split(".")[-2]


@pytest.mark.parametrize(
    ("optimizer", "label"), [(MuonConfig(), "muon"), (MuonHConfig(), "muonh"), (NamoConfig(), "namo")]
)
def test_a_matrix_optimizer_covers_a_llamas_matrices(optimizer: OptimizerConfig, label: str) -> None:
    found = groups(optimizer)
    assert {module(parameter.path) for parameter in found if parameter.group == label} == MATRICES
    assert {module(p.path) for p in found if p.is_embedding} == {"token_embeddings", "lm_head"}
    assert sum(parameter.count for parameter in found) == 2 * 512 * 64 + 3 * (3 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64
    assert matrices_left_out(found) == []


def test_layers_stacked_make_no_matrix_of_a_norm() -> None:
    norm = next(parameter for parameter in groups(AdamConfig()) if "input_layernorm" in parameter.path)
    assert (norm.shape, norm.is_matrix, norm.group) == ((3, 64), False, "AdamConfig")


def test_an_optimizer_with_one_group_leaves_nothing_out() -> None:
    found = groups(AdamConfig())
    assert {parameter.group for parameter in found} == {"AdamConfig"}
    assert matrices_left_out(found) == []


def test_experts_that_muon_gives_to_adam_are_named() -> None:
    left_out = matrices_left_out(groups(MuonConfig(), MixtralConfig))
    assert {module(parameter.path) for parameter in left_out} == EXPERTS
    assert {parameter.group for parameter in left_out} == {"adamw"}


def test_an_optimizer_for_another_layout_covers_no_matrix() -> None:
    assert {module(parameter.path) for parameter in matrices_left_out(groups(GrugMuonConfig()))} == MATRICES


@dataclasses.dataclass(frozen=True)
class Homemade(OptimizerConfig):
    """Groups made without a create_mask, by a label for each subtree."""

    def build(self, num_train_steps: int):  # noqa: ANN201
        def labels(model):  # noqa: ANN001, ANN202
            return dataclasses.replace(model, transformer="inner", embeddings="outer", lm_head="outer")

        return optax.multi_transform({"inner": optax.sgd(1e-2), "outer": optax.adam(1e-3)}, labels)


def test_labels_may_stand_for_whole_subtrees() -> None:
    found = groups(Homemade(learning_rate=1e-3))
    assert {p.group for p in found if p.path.startswith("transformer.")} == {"inner"}
    assert {p.group for p in found if not p.path.startswith("transformer.")} == {"outer"}


def test_an_optimizer_that_cannot_start_is_a_clear_error() -> None:
    @dataclasses.dataclass(frozen=True)
    class Broken(OptimizerConfig):
        def build(self, num_train_steps: int):  # noqa: ANN202
            def init(params):  # noqa: ANN001, ANN202
                raise ValueError("no such axis")

            return optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state))

    with pytest.raises(SpeedrunError, match="Broken.*no such axis"):
        groups(Broken(learning_rate=1e-3))
