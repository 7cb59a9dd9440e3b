"""The versions in the addresses that the harness makes."""

STEP_VERSION = "2026.11.30"
"""Raise it when what a step writes changes in a way that its configuration does not show."""

EVALUATION_VERSION = "2026.12.01"
"""The same for the evaluate and the record step: a new one scores finished checkpoints again, and trains nothing."""
