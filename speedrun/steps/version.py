"""The version in every address that the harness makes."""

STEP_VERSION = "2026.11.30"
"""Raise it when what a step writes changes in a way that its configuration does not show."""
