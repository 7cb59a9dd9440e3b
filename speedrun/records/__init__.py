"""Results as data: their schema, their files, their step logs."""
