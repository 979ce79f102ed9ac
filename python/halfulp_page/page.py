"""Makes one HTML document of reports. Needs matplotlib and jinja2, but not halfulp."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from .claims import VERDICTS, counts
from .inputs import Source, grouped
from .plots.saved import data_uri
from .plots.svg import class_rules
from .processes import shared_out
from .sections import About, Section, section
from .text import count, counted, plain

ROWS = 50  # rows of a table, before the page says that there are more


def render(sources: Sequence[Source], *, title: str = "", about: Mapping[str, About] | None = None, rows: int = ROWS, jobs: int = 1) -> str:
    """One page of the reports, with two of the same experiment side by side. `about`: experiments in the order of the
    page. rows: the largest number of rows per table, 0 for all. jobs: the largest number of processes that draw. The
    same reports give the same bytes. Raises BadInput for three reports of an experiment, ImportError without jinja2 or
    matplotlib."""
    environment, shown = _prepared(sources, title, about or {}, rows, jobs)
    return environment.get_template("page.html").render(shown, files=False)


def render_folder(sources: Sequence[Source], *, title: str = "", about: Mapping[str, About] | None = None, rows: int = ROWS, jobs: int = 1) -> dict[str, str]:
    """The same as files by name: index.html with the pictures that say most, EXPERIMENT.html with everything of each
    experiment, and figures/NAME.svg, every picture."""
    environment, shown = _prepared(sources, title, about or {}, rows, jobs)
    files = {"index.html": environment.get_template("overview.html").render(shown, files=True)}
    for i, s in enumerate(shown["sections"]):
        files[f"{s.name}.html"] = environment.get_template("experiment.html").render(shown, files=True, s=s, i=i)
        files |= {f"figures/{name}.svg": panel.saved for p in s.pictures for part in p.parts for name, panel in zip(part.files, part.panels)}
    return files


def _prepared(sources: Sequence[Source], title: str, about: Mapping[str, About], rows: int, jobs: int) -> tuple[Any, dict[str, Any]]:
    """The templates, and what they show."""
    import jinja2
    import matplotlib  # noqa: F401  it makes a folder for itself, perhaps a temporary one, that other processes then use
    sections = shared_out(section, [(group, about.get(group[0].experiment, About()), rows) for group in grouped(sources, list(about))], jobs)
    folder = Path(__file__).parent
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(count=count, data_uri=data_uri, plain=plain)
    environment.globals.update(counted=counted, verdicts=VERDICTS, limit=rows)
    style = (folder / "templates" / "style.css").read_text(encoding="utf-8") + class_rules()
    return environment, {
        "title": title or _title(sections),
        "style": style,
        "sections": sections,
        "figures": _figures(sources, sections),
        "totals": counts([s.report for s in _counted(sources, about)]),
        "uncounted": _uncounted(sources, about),
    }


def _title(sections: Sequence[Section]) -> str:
    if len(sections) == 1:
        return sections[0].title
    return f"halfulp: {counted(len(sections), 'experiment')}"


def _counted(sources: Sequence[Source], about: Mapping[str, About]) -> Sequence[Source]:
    """The reports whose claims make the totals. Claims that repeat other claims count only where those are missing."""
    return [s for s in sources if not about.get(s.experiment, About()).retells] or sources


def _uncounted(sources: Sequence[Source], about: Mapping[str, About]) -> list[str]:
    """The experiments whose claims are not in the totals."""
    counted_ones = {s.experiment for s in _counted(sources, about)}
    return [name for name in dict.fromkeys(s.experiment for s in sources) if name not in counted_ones]


def _figures(sources: Sequence[Source], sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The results of all reports that were compared with devices."""
    backends: dict[str, dict[str, Any]] = {}
    for side in (side for s in sections for side in s.sides):
        for backend in side.backends:
            total = backends.setdefault(backend.name, {"name": backend.name, "compared": 0, "differing": 0, "approximate": 0, "operations": 0, "why": ""})
            for member in ("compared", "differing", "approximate", "operations"):
                total[member] += getattr(backend, member)
            total["why"] = total["why"] or (backend.skipped[0][1] if backend.skipped else "")
    return list(backends.values())
