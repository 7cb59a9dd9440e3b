"""Verification records: somebody else ran a record's recipe again, and what came of it.

``results/<candidate>/<rung>/verification-<seed>.json`` is written by ``speedrun reproduce``. It stands for the
record only while that record is still the one that was run again: its run key and its score must agree.
"""

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from speedrun.errors import SpeedrunError
from speedrun.records import strict_json
from speedrun.records.schema import RunInfo

FILE_NAME = re.compile(r"verification-(0|[1-9][0-9]{0,9})\.json")


class Verification(BaseModel):
    """What running a record again gave."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    schema_version: Literal[1] = 1
    candidate: str
    rung: str
    seed: int
    run_key: str
    """Of the record."""
    recorded_bits_per_byte: float
    bits_per_byte: float
    """Of the rerun."""
    tolerance: float
    """Largest difference in bits per byte that noise explains."""
    noise: str
    """Where the tolerance comes from."""
    verdict: Literal["reproduced", "differs"]
    differences: list[str] = []
    """What else differed, in words, such as the hardware or a package's version."""
    source_digest: str
    recipe_fingerprint: str
    """Of the rerun."""
    hardware: str
    """Of the rerun."""
    versions: dict[str, str]
    verified_by: str
    completed: str
    """UTC, as records write it."""

    def stands_for(self, info: RunInfo) -> bool:
        """Whether ``info`` is the record that was run again."""
        return (self.candidate, self.rung, self.seed, self.run_key, self.recorded_bits_per_byte) == (
            info.candidate,
            info.rung,
            info.seed,
            info.run_key,
            info.bits_per_byte,
        )


def verification_file(seed: int) -> str:
    """Name of the file, beside the record."""
    return f"verification-{seed}.json"


def read_verification(folder: Path, seed: int) -> Verification | None:
    """The verification of the run with this seed in ``folder``; None when there is none.

    Raises:
        SpeedrunError: when it is damaged.
    """
    path = folder / verification_file(seed)
    try:
        return parse_verification(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpeedrunError(f"{path} cannot be read: {error.strerror}") from None


def parse_verification(content: bytes, name: str) -> Verification:
    """See ``read_verification``; ``name`` is what errors call the file."""
    try:
        return Verification.model_validate(strict_json.loads(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise SpeedrunError(f"{name}: {'.'.join(map(str, first['loc'])) or 'the top level'}: {first['msg']}") from None
    except ValueError as error:
        raise SpeedrunError(f"{name}: {error}") from None
