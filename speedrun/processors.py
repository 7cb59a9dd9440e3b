"""How much of a machine's processors this process used, and how much others did.

A run on the CPU shares its clock with whatever else the machine does: its times tell of its method only where the
others did next to nothing.
"""

from dataclasses import dataclass
from typing import Self

import psutil


@dataclass(frozen=True)
class ProcessorUse:
    """Processor seconds since the machine, and this process, began."""

    total: float
    """Of all processors, idle or not."""
    busy: float
    """Of all processors, at work for anybody."""
    own: float
    """Of this process and those of its children that have ended."""

    @classmethod
    def now(cls) -> Self:
        """As the operating system counts them."""
        all_times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        # Linux counts a guest's time into the host's user time too.
        total = sum(all_times) - getattr(all_times, "guest", 0.0) - getattr(all_times, "guest_nice", 0.0)
        idle = all_times.idle + getattr(all_times, "iowait", 0.0)
        return cls(total, total - idle, own.user + own.system + own.children_user + own.children_system)

    def others_share_since(self, before: "ProcessorUse") -> float | None:
        """Share of all processor time since ``before`` that went to other processes (0 to 1); None where no time
        has passed by the operating system's clock."""
        total = self.total - before.total
        if total <= 0:
            return None
        others = (self.busy - before.busy) - (self.own - before.own)
        return min(max(others / total, 0.0), 1.0)
