"""The emulation against devices: counts per backend, and every operation that was compared."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from .text import NOTHING, plain


@dataclass
class Backend:
    """What a report says about one backend."""
    name: str
    description: str = NOTHING
    independence: str = NOTHING
    operations: int = 0
    compared: int = 0
    differing: int = 0
    approximate: int = 0  # of the differing results: by routes that need not round correctly
    unanswered: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)  # how many operations, and why
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def skipped_operations(self) -> int:
        return sum(n for n, _ in self.skipped)

    @property
    def verdict(self) -> str:
        """The word in the table."""
        if not self.operations:
            return "not compared"
        if not self.differing:
            return "same"
        return "differs, as approximations may" if self.approximate == self.differing else "differs"


def backends_of(report: Mapping[str, Any]) -> list[Backend]:
    """Backends in the environment's order, then others that were compared."""
    found: dict[str, Backend] = {}
    for entry in report["environment"].get("backends") or []:
        if isinstance(entry, Mapping) and entry.get("name") not in (None, "emulated"):
            found[str(entry["name"])] = Backend(str(entry["name"]), plain(entry.get("description")))
    for entry in report["comparisons"]:
        backend = found.setdefault(plain(entry.get("backend")), Backend(plain(entry.get("backend"))))
        backend.independence = plain(entry.get("independence"))
        if entry.get("skipped") is not None:
            backend.skipped.append((len(entry.get("tasks") or []), plain(entry["skipped"])))
            continue
        backend.operations += 1
        backend.compared += entry.get("compared") or 0
        backend.differing += entry.get("differing") or 0
        backend.approximate += (entry.get("differing") or 0) if entry.get("approximate") else 0
        backend.unanswered += entry.get("unanswered") or 0
        backend.rows.append(_row(entry))
    for entry in report["environment"].get("backends") or []:
        if isinstance(entry, Mapping) and not entry.get("available") and (b := found.get(str(entry.get("name")))) and not b.skipped and not b.operations:
            b.skipped.append((0, plain(entry.get("reason"))))
    for backend in found.values():
        backend.rows.sort(key=lambda row: row["differing"] == 0)
    return list(found.values())


def _row(entry: Mapping[str, Any]) -> dict[str, Any]:
    source, target = plain(entry.get("from")), plain(entry.get("to"))
    witness = next(iter(entry.get("witnesses") or []), None)
    return {"operation": plain(entry.get("operation")), "formats": source if source == target else f"{source} to {target}", "rounding": plain(entry.get("rounding")),
            "route": plain(entry.get("route")), "compared": entry.get("compared") or 0, "differing": entry.get("differing") or 0,
            "classes": plain(entry.get("classes") or None), "witness": _witness(witness), "approximate": bool(entry.get("approximate"))}


def _witness(witness: Any) -> str:
    if not isinstance(witness, Mapping):
        return NOTHING
    return f"{plain(witness.get('operands'))}: emulated {plain(witness.get('emulated'))}, device {plain(witness.get('device'))}"
