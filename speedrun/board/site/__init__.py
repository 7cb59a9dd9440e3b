"""The leaderboard as a static site: everything worked out here, shown there. It needs no network and no server."""
