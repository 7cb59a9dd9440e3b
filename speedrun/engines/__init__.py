"""Where steps run: engines, and the locks that keep two of them from doing the same work."""
