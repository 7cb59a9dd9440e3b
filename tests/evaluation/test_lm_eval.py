"""The score against lm-eval's own code: its windows and its arithmetic, fed with our log-probabilities."""

import jax
import numpy as np
import pytest
from haliax import Axis

from speedrun import LADDER, reference
from speedrun.evaluation.ledger import score_documents
from speedrun.evaluation.nats import nats_function
from tests.evaluation.models import BOS, ByteTokenizer

LENGTH = 16


@pytest.mark.slow
def test_lm_eval_s_rolling_code_gives_the_same_bits_per_byte() -> None:
    from lm_eval.api.metrics import bits_per_byte
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    llama = reference.recipe(LADDER["micro_1"]).model.build(Axis("vocab", 258), key=jax.random.PRNGKey(3))
    nats = nats_function(llama)

    def log_likelihood(context: list[int], continuation: list[int]) -> float:
        """Of lm-eval's request, as its Hugging Face models answer it."""
        tokens = [*context, *continuation][-(LENGTH + 1) :]
        row, targets = (np.zeros((1, LENGTH), dtype=np.int32) for _ in range(2))
        count = len(tokens) - 1
        row[0, :count], targets[0, :count] = tokens[:-1], tokens[1:]
        return -float(nats(row, targets)[0, count - len(continuation) : count].sum())

    texts = ["short", "as long as this is, it takes three windows of sixteen", "just sixteen now", "é 世界 🙂 " * 4]
    items = []
    for text in texts:
        windows = get_rolling_token_windows(
            token_list=list(text.encode()), prefix_token=BOS, max_seq_len=LENGTH, context_len=1
        )
        total = sum(log_likelihood(*make_disjoint_window(window)) for window in windows)
        items.append((total, len(text.encode())))
    ours = score_documents(llama, texts, ByteTokenizer(), length=LENGTH, batch_size=4)
    assert ours.bits_per_byte == pytest.approx(bits_per_byte(items), rel=1e-6)
