"""A validation's findings as text. Whatever came from a stranger is in one line and steers no terminal."""

from speedrun.submission.rule import Finding, Severity, plain
from speedrun.submission.validate import Report


def findings_text(report: Report, limit: int) -> str:
    """One paragraph a finding, worst first, and the sum at the end."""
    lines = [_line(finding) for finding in report.findings[:limit]]
    if len(report.findings) > limit:
        lines.append(f"... and {len(report.findings) - limit} more: --json lists them all")
    counts = [_count(len(found), severity) for severity in Severity if (found := report.of(severity))]
    looked_at = f"{_count(report.runs, 'run')} in {_count(report.records, 'record')}"
    lines.append(f"{looked_at}: {', '.join(counts) or 'nothing to report'}")
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    where = plain(finding.path) + (f", {plain(finding.field)}" if finding.field else "")
    return f"{finding.severity}: {where}\n    {plain(finding.message)} [{finding.rule}]"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
