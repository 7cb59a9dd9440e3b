"""What a candidate costs, known before any accelerator is touched.

- ``conventions``: model FLOPs by Marin's convention and with causal attention, in closed form (no jax).
- ``plan``: hours, chip-hours and dollars from those figures and a hardware specification (no jax).
- ``workload``: what the meters below need of a recipe.
- ``trace``: model FLOPs and the training step's own, counted on the jaxpr of the candidate's real loss and
  real Levanter training step; nothing is allocated and nothing is computed.
- ``meters``: the three FLOPs meters side by side, and which of them a run is charged by.
- ``memory``: bytes of state per chip, exact, and a lower bound of the activations.
- ``compiled``: the real training step compiled for a TPU or GPU that is not there.
- ``groups``: which parameters an optimizer puts in which group.
- ``attention``: which positions each layer really attends to, found by a numeric probe.
"""
