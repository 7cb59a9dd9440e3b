"""The leaderboard: from the records of a project to tables, LEADERBOARD.md and the site. No jax here.

``build.board`` works everything out once, as plain data (``model.Board``); what shows it computes nothing.
"""
