"""The cluster files that users start from: Ray's own schema accepts them, or what they say fits the engine."""

import json
import re
from pathlib import Path

import pytest
import yaml
from fray.types import ResourceConfig

from speedrun.engines.placement import Node, need_of, refusal

REPOSITORY = Path(__file__).parents[2]
CLUSTERS = REPOSITORY / "scripts" / "clusters"


def test_ray_accepts_the_cluster_file() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((CLUSTERS / "gcp-tpu.yaml").read_text())
    validate_config(prepare_config(config))
    # A misspelt field must not pass: the schema knows its names.
    with pytest.raises(Exception, match="idle_timeout_minuts"):
        validate_config(prepare_config(config | {"idle_timeout_minuts": 10}))


def test_the_kubernetes_job_asks_for_machines_that_hold_its_run() -> None:
    job = yaml.safe_load((CLUSTERS / "kuberay.yaml").read_text())["spec"]
    cluster = job["rayClusterSpec"]
    pinned = re.search(r'"ray==([\d.]+)"', (REPOSITORY / "pyproject.toml").read_text())
    assert pinned is not None and cluster["rayVersion"] == pinned[1]
    (group,) = cluster["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    # KubeRay makes such a node of these limits, and the string within the string is Ray's own --resources.
    own = json.loads(json.loads(group["rayStartParams"]["resources"]))
    node = Node({"CPU": int(limits["cpu"]), "GPU": int(limits["nvidia.com/gpu"]), **own}, most=group["maxReplicas"])
    assert "--hardware h100x16" in job["entrypoint"]
    assert refusal(need_of(ResourceConfig.with_gpu("H100", count=8), 2), [node]) is None
    assert refusal(need_of(ResourceConfig.with_gpu("H100", count=8), 3), [node]) is not None
