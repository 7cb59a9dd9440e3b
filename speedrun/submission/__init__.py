"""From idea to pull request: preregister, validate, reproduce, submit, report, export.

What checks a record (``validate`` and the rules) reads it as data and imports no candidate; nothing here
imports jax or levanter, but for ``preregister``, which needs the candidate's recipe and says so.
"""
