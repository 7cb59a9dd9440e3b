"""The cluster files that users start from: Ray's own schema accepts them."""

from pathlib import Path

import pytest
import yaml

CLUSTERS = Path(__file__).parents[2] / "scripts" / "clusters"


@pytest.mark.parametrize("file", sorted(CLUSTERS.glob("*.yaml")), ids=lambda file: file.name)
def test_ray_accepts_the_cluster_file(file: Path) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load(file.read_text())
    validate_config(prepare_config(config))
    # A misspelt field must not pass: the schema knows its names.
    with pytest.raises(Exception, match="idle_timeout_minuts"):
        validate_config(prepare_config(config | {"idle_timeout_minuts": 10}))
