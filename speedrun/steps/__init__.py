"""The DAG of Marin executor steps that turns a recipe into a record."""
