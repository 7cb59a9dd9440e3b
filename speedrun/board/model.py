"""The board as plain data: all that is ever shown, worked out, and nothing that still has to be computed.

It is what ``speedrun leaderboard --json`` prints, what LEADERBOARD.md and the site are made from, and what is
cached. Bits per byte, model FLOPs and speedups are defined in docs/scoring.md. What is not known is null.
"""

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(protected_namespaces=())


class Figure(_Model):
    """A figure with its interval at 90 %, or the reason why there is none. An open end is null."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class Credit(_Model):
    """An author."""

    name: str
    affiliation: str
    url: str


class RunRow(_Model):
    """One run: a seed of an arm."""

    seed: int
    bits_per_byte: float
    model_flops: float
    run_link: str | None
    flags: list[str]
    """Why it is not ranked; see ``records.FLAGS``."""


class MetricMean(_Model):
    """A figure off the board's axis, such as a sparsity: shown, and never ranked on."""

    name: str
    value: float
    """Mean over seeds."""
    unit: str
    meaning: str


class ArmRow(_Model):
    """A candidate at a rung, over its seeds."""

    candidate: str
    rung: str
    rank: int | None
    tier: int | None
    bits_per_byte: Figure
    """Mean over seeds."""
    levanter_bits_per_byte: float | None
    """Levanter's own figure, mean over seeds: what public rows compare with."""
    speedup: Figure
    """Over the board's baseline."""
    realised: Figure
    """The same in time, on the same hardware."""
    verdict: str
    """better, worse or no evidence; empty for the baseline, and where nothing is compared."""
    why: str
    beaten_by: str
    """Candidates that beat it at every rung it has."""
    not_ranked: str
    """Why there is no rank."""
    model_flops: float
    causal_flops: float | None
    """The same with attention counted over the half that a causal mask leaves; null for other models than Llamas."""
    hardware_flops: float | None
    budget_share: float
    optimizer_share: float | None = None
    """Of model FLOPs and the optimizer's together; null where its FLOPs are not on record."""
    parameters: int
    active_parameters: int | None = None
    """Those that a token passes through, embeddings included; null where it is not on record."""
    metrics: list[MetricMean] = []
    """What the candidate had measured on its finished models."""
    tokens: float
    training_seconds: float
    mfu: float | None
    hardware: str
    completed: str
    """Day of the latest run, UTC."""
    authors: list[Credit]
    badges: list[str]
    """See ``badges.BADGES``."""
    probes: str
    """probes passed, probes failed or not probed."""
    ended: str = ""
    """Why the ladder was ended after this rung, in words."""
    search_runs: int
    """Runs of the search for its settings, as far as on record."""
    search_flops: float
    """Model FLOPs of that search."""
    runs: list[RunRow]
    record: str
    """Path of the results file."""
    pull_request: int | None = None
    """Number of the one that brought the record; null where the history tells of none. Added when shown."""
    pull_request_url: str = ""

    @property
    def sparse(self) -> int | None:
        """The active parameters of a sparse model; None where a token passes through all, or it is not known."""
        return self.active_parameters if self.active_parameters != self.parameters else None


class LadderRow(_Model):
    """A candidate over a ladder, against the baseline."""

    candidate: str
    top_rung: str
    rungs: int
    """Rungs that both have."""
    speedup: Figure
    """At the top rung."""
    realised: Figure
    slope: Figure
    """b in ln S = a + b ln(C / C_top)."""
    word: str
    """grows, holds, shrinks or unknown."""
    warnings: list[str]


class Line(_Model):
    """A fitted curve, ready to draw."""

    candidate: str
    asymptote: float
    coefficient: float
    exponent: float
    model_flops: list[float]
    bits_per_byte: list[float]
    low: list[float]
    """Band of the fits that leave one rung out; empty with three rungs."""
    high: list[float]
    point_flops: list[float]
    residuals: list[float]
    """Measured minus fitted bits per byte at each point."""
    projection: Figure | None = None
    """Bits per byte at ``PROJECTION_FLOPS``, with that band."""


class Hit(_Model):
    """A run or an arm that reaches a target."""

    name: str
    bits_per_byte: float
    model_flops: float
    training_seconds: float | None
    hardware: str
    link: str


class Track(_Model):
    """A quality to be reached, and who does: cheapest first, and fastest first."""

    name: str
    bits_per_byte: float
    by_flops: list[Hit]
    by_time: list[Hit]


class Ladder(_Model):
    """One ladder of our own. Micro and standard rungs never share a curve."""

    name: str
    baseline: str
    rungs: list[str]
    noise: str
    """What is known of the seed noise, in words."""
    problem: str
    """Why there are no speedups; empty when there are."""
    over_ladder: list[LadderRow]
    """By the lower end of the speedup at the top rung."""
    arms: list[ArmRow]
    """By rung, then rank."""
    front: list[str]
    """"candidate/rung" of the arms that no other beats in both model FLOPs and bits per byte."""
    lines: list[Line]
    tracks: list[Track]


class PublicRow(_Model):
    """A row of Marin's historic board, as published, with what this project makes of it."""

    name: str
    candidate: str
    rung: str
    rank: int | None
    tier: int | None
    bits_per_byte: float | None
    speedup: Figure
    not_ranked: str
    beaten_by: str
    model_flops: float | None
    hardware_flops: float | None
    training_seconds: float | None
    parameters: float | None
    author: str
    author_url: str
    completed: str
    run_link: str | None
    flags: list[str]


class PublicBoard(_Model):
    """Marin's historic board: other data, other rungs, Levanter's figure. Never mixed with ours."""

    as_of: str
    source: str
    baseline: str
    rungs: list[str]
    rows: list[PublicRow]
    front: list[str]
    lines: list[Line]
    """By projection, best first."""
    tracks: list[Track]


class GateOne(_Model):
    """What `speedrun check` found."""

    passed: bool
    rungs: list[str]
    problems: list[str]


class CandidateInfo(_Model):
    """What is the same at every rung."""

    name: str
    hypothesis: str
    gate_one: GateOne | None
    """None where `speedrun check` left nothing."""


class Board(_Model):
    """All of it."""

    candidates: list[CandidateInfo]
    ladders: list[Ladder]
    public: PublicBoard | None
