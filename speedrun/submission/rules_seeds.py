"""Rules about the runs of one folder together: one recipe, its seeds, and everything that was started."""

from collections.abc import Iterator

from speedrun.records.attempts import runs_on_record
from speedrun.submission.rule import Fault, Rule, Severity, show
from speedrun.submission.subjects import RecordFolder

FIRST_SEED = 42
_SHARED = (
    "recipe_fingerprint", "source_digest", "model_configuration", "train_config", "overrides", "baseline",
    "model_size", "authors", "description",
)  # fmt: skip


def seeds_distinct(folder: RecordFolder) -> Iterator[Fault]:
    """No seed stands in a results file twice."""
    seeds = [info.seed for info in folder.runs]
    for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        yield Fault("runs", f"seed {seed} stands there {seeds.count(seed)} times")


def seeds_complete(folder: RecordFolder) -> Iterator[Fault]:
    """Seeds are 42, 43, ... without a gap, so that none can be picked or left out."""
    seeds = {info.seed for info in folder.runs}
    missing = [seed for seed in range(FIRST_SEED, FIRST_SEED + len(seeds)) if seed not in seeds]
    if missing:
        listed = ", ".join(map(str, sorted(seeds)[:10]))
        yield Fault("runs", f"seeds {listed}: {missing[0]} is missing. Run it too: seeds are {FIRST_SEED}, 43, ...")


def one_recipe(folder: RecordFolder) -> Iterator[Fault]:
    """All runs of a results file are seeds of one recipe: same settings, source, baseline and authors."""
    runs = folder.runs
    for at, info in enumerate(runs[1:], start=1):
        different = [name for name in _SHARED if getattr(info, name) != getattr(runs[0], name)]
        if different:
            names = ", ".join(name.replace("model_configuration", "model_config") for name in different)
            yield Fault(f"runs[{at}].run_info", f"seed {info.seed} differs from seed {runs[0].seed} in {names}")


def seeds_differ(folder: RecordFolder) -> Iterator[Fault]:
    """Two seeds never score the same to the last digit, nor leave the same step log: that is one run, entered
    twice."""
    for name, of in (
        ("bits_per_byte", lambda info: info.bits_per_byte),
        ("step_log.sha256", lambda info: info.step_log.sha256),
    ):
        first: dict[object, int] = {}
        for at, info in enumerate(folder.runs):
            seed = first.setdefault(of(info), info.seed)
            if seed != info.seed:
                yield Fault(f"runs[{at}].run_info.{name}", f"seed {info.seed} has the same as seed {seed}")


def attempts_on_record(folder: RecordFolder) -> Iterator[Fault]:
    """Every run on record was started according to attempts.jsonl."""
    if not folder.runs or folder.attempts[1]:
        return
    attempts, _ = folder.attempts
    if attempts is None:
        yield Fault("", "there is no attempts.jsonl: how many attempts there were is not known", folder.path)
        return
    started = runs_on_record(attempts)
    for at, info in enumerate(folder.runs):
        if (info.recipe_fingerprint, info.seed) not in started:
            yield Fault(f"runs[{at}].run_info.seed", f"the start of seed {info.seed} is not in attempts.jsonl")


def seeds_started(folder: RecordFolder) -> Iterator[Fault]:
    """Every seed of the recipe that was started is on record, also where it failed or disappointed."""
    attempts = folder.attempts[0] or []
    recipes, seeds = {info.recipe_fingerprint for info in folder.runs}, {info.seed for info in folder.runs}
    missing = {
        attempt.start.seed: attempt.how
        for attempt in attempts
        if attempt.start.recipe_fingerprint in recipes and attempt.start.seed not in seeds
    }
    for seed, how in sorted(missing.items())[:20]:
        yield Fault("runs", f"seed {seed} was started ({how}) and is not on record", f"{folder.path}/attempts.jsonl")


def recipes_tried(folder: RecordFolder) -> Iterator[Fault]:
    """How many recipes were tried at the rung: the best of many is not the same as the only one."""
    attempts = folder.attempts[0] or []
    tried = {attempt.start.recipe_fingerprint for attempt in attempts}
    if folder.runs and len(tried | {info.recipe_fingerprint for info in folder.runs}) > 1:
        yield Fault("", f"best of {len(tried)} recipes, {len(attempts)} attempts", f"{folder.path}/attempts.jsonl")


def preregistered(folder: RecordFolder) -> Iterator[Fault]:
    """Whether the recipe was preregistered before its first run."""
    if not folder.runs or folder.candidate == folder.runs[0].baseline:
        return
    plan = folder.world.candidate(folder.candidate).preregistration
    status = "not preregistered" if plan is None else plan.status(folder.runs[0])
    if status in ("not preregistered", "registered after"):
        yield Fault("", status)


def changed_since(folder: RecordFolder) -> Iterator[Fault]:
    """The recipe is the preregistered one; what differs is listed."""
    plan = folder.world.candidate(folder.candidate).preregistration
    if plan is None or not folder.runs or folder.rung_name not in plan.plan.rungs:
        return
    info = folder.runs[0]
    if plan.plan.rungs[folder.rung_name].recipe_fingerprint == info.recipe_fingerprint:
        return
    changes = plan.changes(info)
    listed = "; ".join(f"{field}: {show(was)} -> {show(now)}" for field, was, now in changes[:8])
    more = f"; and {len(changes) - 8} more" if len(changes) > 8 else ""
    yield Fault("recipe_fingerprint", f"changed since it was preregistered: {listed or 'code or data'}{more}")


def clean_tree(folder: RecordFolder) -> Iterator[Fault]:
    """Whether tracked files differed from the commit when the record was made."""
    dirty = [str(info.seed) for info in folder.runs if info.git_dirty]
    if dirty:
        yield Fault("", f"dirty tree: tracked files differed from the commit on record (seed {', '.join(dirty[:10])})")


SEED_RULES: tuple[Rule[RecordFolder], ...] = (
    Rule("seeds-distinct", Severity.ERROR, seeds_distinct),
    Rule("seeds-complete", Severity.ERROR, seeds_complete),
    Rule("one-recipe", Severity.ERROR, one_recipe),
    Rule("seeds-differ", Severity.ERROR, seeds_differ),
    Rule("attempts-on-record", Severity.WARNING, attempts_on_record),
    Rule("seeds-started", Severity.WARNING, seeds_started),
    Rule("clean-tree", Severity.NOTE, clean_tree),
    Rule("recipes-tried", Severity.NOTE, recipes_tried),
    Rule("preregistered", Severity.NOTE, preregistered),
    Rule("changed-since", Severity.WARNING, changed_since),
)
