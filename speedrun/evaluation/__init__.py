"""The score: bits per byte, counted from logits by the harness itself."""
