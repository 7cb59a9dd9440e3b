"""What a cluster can ever hold, worked out by hand from made-up nodes."""

import pytest
from fray.types import ResourceConfig

from speedrun.engines.placement import Need, Node, need_of, refusal

H100 = Node({"CPU": 208, "GPU": 8, "accelerator_type:H100": 1, "node:10.0.0.1": 1, "memory": 1e12})
A100 = Node({"CPU": 96, "GPU": 8, "accelerator_type:A100": 1})
V5P_8 = Node({"CPU": 64, "TPU": 4, "TPU-v5p-8-head": 1, "one": 1}, {"ray.io/tpu-pod-type": "v5p-8"})
V6E_4 = Node({"CPU": 180, "TPU": 4, "TPU-v6e-4-head": 1, "other": 1}, {"ray.io/tpu-pod-type": "v6e-4"})


def worker(number: int, name: str = "slice") -> Node:
    head = {"TPU-v5p-16-head": 1.0} if number == 0 else {}
    labels = {"ray.io/tpu-pod-type": "v5p-16", "ray.io/tpu-slice-name": name, "ray.io/tpu-worker-id": str(number)}
    return Node({"CPU": 208, "TPU": 4, name: 1, **head}, labels)


def gpus(kind: str, count: int, hosts: int = 1) -> Need:
    return need_of(ResourceConfig.with_gpu(kind, count=count), hosts)


def test_gpus_are_asked_for_by_number_and_type() -> None:
    assert gpus("H100", 8).bundle == {"CPU": 1, "GPU": 8, "accelerator_type:H100": 0.001}
    # Ray does not tell the two sizes of an A100 apart.
    assert "accelerator_type:A100" in gpus("A100-80G", 8).bundle


def test_a_slice_of_one_host_is_pinned_by_its_head_and_one_of_several_by_its_kind() -> None:
    one = need_of(ResourceConfig.with_tpu("v5p-8", cpu=4), 1)
    assert one.bundle == {"CPU": 4, "TPU": 4, "TPU-v5p-8-head": 1}
    two = need_of(ResourceConfig.with_tpu("v5p-16", cpu=4), 2)
    assert (two.bundle, two.hosts, two.tpu_slice, two.slices) == ({"CPU": 4, "TPU": 4}, 2, "v5p-16", 1)


@pytest.mark.parametrize(
    ("need", "nodes"),
    [
        (gpus("H100", 8), [H100]),
        (gpus("H100", 8, hosts=2), [A100, H100, H100]),
        (need_of(ResourceConfig.with_tpu("v5p-8", cpu=64), 1), [V5P_8]),
        (need_of(ResourceConfig.with_tpu("v5p-16"), 2), [worker(1), worker(0)]),
        # An autoscaler that may add what is not there yet.
        (gpus("H100", 8, hosts=4), [H100, Node(H100.resources, most=3)]),
        (need_of(ResourceConfig.with_tpu("v5p-16"), 2), [Node({"CPU": 208, "TPU": 4}, most=2)]),
        (need_of(ResourceConfig.with_cpu(), 1), [Node({"CPU": 1})]),
    ],
)
def test_what_fits_is_let_through(need: Need, nodes: list[Node]) -> None:
    assert refusal(need, nodes) is None


def test_the_refusal_says_what_is_needed_what_there_is_and_what_would_fit() -> None:
    assert refusal(gpus("H100", 8, hosts=2), [H100, A100]) == (
        "it needs 2 x {CPU: 1, GPU: 8, H100} on distinct nodes; the cluster can ever hold 1. "
        "It has 1 x {CPU: 208, GPU: 8, H100}; 1 x {CPU: 96, GPU: 8, A100}. "
        "The nearest that would fit: --hardware h100x8."
    )


def test_another_type_with_as_many_chips_does_not_fit() -> None:
    assert "--hardware v6e-4" in (refusal(need_of(ResourceConfig.with_tpu("v5p-8"), 1), [V6E_4]) or "")
    assert refusal(gpus("H100", 8), [A100]) is not None


def test_two_halves_of_two_slices_are_no_slice() -> None:
    need = need_of(ResourceConfig.with_tpu("v5p-16"), 2)
    assert refusal(need, [worker(0, "a"), worker(1, "b")]) is not None


def test_where_only_cpus_are_missing_it_says_how_many_to_ask_for() -> None:
    # Marin asks for half of a v5p host's 208 CPUs; this one has 64.
    said = refusal(need_of(ResourceConfig.with_tpu("v5p-8"), 1), [V5P_8]) or ""
    assert "CPU: 104" in said
    assert said.endswith("With --cpus-per-host 64 it would fit.")


def test_a_cluster_without_accelerators_says_so() -> None:
    said = refusal(gpus("H100", 1), [Node({"CPU": 4}), Node({"CPU": 16})]) or ""
    assert said.endswith("There is no accelerator; the nearest that would fit is --hardware cpu with up to 16 CPUs.")
    assert "It has no node." in (refusal(gpus("H100", 1), []) or "")
