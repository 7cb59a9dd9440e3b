"""Parts that Levanter lacks, for candidates to build on. What a candidate imports from here belongs to its source."""
