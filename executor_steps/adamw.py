"""AdamW on the reference Llama: the baseline that the other candidates are compared with."""

from speedrun import Author, Candidate, reference

CANDIDATE = Candidate(
    name="adamw",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="The baseline: Adam with decoupled weight decay, cosine schedule, 1 % warmup.",
    recipe=reference.recipe,
)

if __name__ == "__main__":
    CANDIDATE.main()
