#!/usr/bin/env python3
"""The order of the house: which room may include which, read from every #include and every Python import.

  house_test.py [ROOT]     one line per arrow that the order does not have, per circle of files or of a room's folders, and per file
                           that does not exist; status 1 if there is any
  house_test.py --itself   plants each of these mistakes in a copy of the tree and checks that it is found
"""
import ast
import os
import pathlib
import re
import shutil
import sys
import tempfile

# A room may include itself and the rooms before it.
ROOMS = ["support", "formats", "emulation", "hardware", "cuda", "evidence", "report", "data", "training", "experiments", "commands"]
# Inside these rooms the folders have an order too; "" is the room's own level.
FLOORS = {"emulation": ["", "array", "unit", "product", "block", "cast", "witness"], "training": ["layers", "", "runs"]}
# In these rooms a folder may include the room's own level, but no other folder.
SEPARATE = ["experiments"]
# These may include every room, themselves, and what is named here. No room includes them.
GUESTS = {"benchmarks": ["python"], "docs": ["python"], "notebooks": ["python"], "python": [], "tests": ["docs", "python", "web"], "web": []}
# These packages do not import each other: the page is also drawn where halfulp is not installed.
PACKAGES = ["python/halfulp", "python/halfulp_page"]
COMPILED = ["python/halfulp/_core"]  # modules without a Python file
GENERATED = re.compile(r"halfulp_\w+\.hpp")  # headers that CMake writes

# What GPU code is compiled from counts bits by this header alone, which says why.
BITS = "formats/bits.hpp"
HOST_BITS = re.compile(r"std::(bit_width|bit_ceil|bit_floor|count[lr]_(?:zero|one)|popcount)\b|__builtin_(?:clz|ctz|popcount)\w*")

# Out of memory while null becomes an object, nlohmann/json 3.11.2 leaves one without members, which nobody can destroy.
NULL_OBJECT = re.compile(r"^[ \t]+(?:Json|nlohmann::ordered_json) (\w+);\n(?:[^\n;]*\n)?[^\n]*\b\1\[", re.MULTILINE)

SOURCES = (".hpp", ".cpp", ".cu", ".cuh", ".def")
LEFT_OUT = ["build", "reports", "__pycache__"]
INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include|define[ \t]+HWY_TARGET_INCLUDE)[ \t]*([<\"])([^>\"\n]+)[>\"]", re.MULTILINE)


def files_of(root):
    """Every source and Python file below the root, by its path from there."""
    found = set()
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith((".", "build")) and name not in LEFT_OUT]
        found |= {os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(SOURCES + (".py",))}
    return found


def includes_of(file, text, files):
    """(arrows, complaints) of a C++ or CUDA file. Headers of other software do not count."""
    arrows, complaints = set(), []
    for directive, bracket, name in INCLUDE.findall(text):
        candidates = [name[len("halfulp/"):] if name.startswith("halfulp/") else name]
        if bracket == '"':
            candidates = [os.path.normpath(os.path.join(os.path.dirname(file), name)), *candidates, "tests/" + name]
        target = next((path for path in candidates if path in files), None)
        if target is None:
            if (bracket == '"' or name.startswith("halfulp/")) and not GENERATED.fullmatch(name):
                complaints.append(f"{file} includes {name}, which does not exist")
        elif directive == "include":  # the other directive names the file itself
            arrows.add(target)
    return arrows, complaints


def imports_of(file, text, files):
    """(arrows, complaints) of a Python file. Modules of other software do not count."""
    arrows, complaints = set(), []
    here = os.path.dirname(file)
    is_script = os.path.join(here, "__init__.py") not in files  # which imports what lies beside it
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.Import):
            level, wanted = 0, [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):  # a module of a package, or a name in a module
            level, wanted = node.level, [[*(node.module or "").split("."), alias.name] for alias in node.names]
        else:
            continue
        places = [os.path.normpath(os.path.join(here, *[".."] * (level - 1)))] if level else [here] * is_script + ["python"]
        for parts in wanted:
            shorter = [parts[:-1]] if isinstance(node, ast.ImportFrom) else []
            paths = [os.path.join(place, *names) for place in places for names in [parts, *shorter]]
            paths = [path.rstrip("/") for path in paths]
            target = next((name for path in paths for name in (path + ".py", path + "/__init__.py") if name in files), None)
            if any(path in COMPILED for path in paths):
                continue
            if target:
                arrows.add(target)
            elif level:
                complaints.append(f"{file} imports {'.'.join(filter(None, parts))}, which does not exist")
    return arrows, complaints


def complaint(file, target):
    """What is wrong with an arrow, or None."""
    (room, *inner), (other, *other_inner) = file.split("/"), target.split("/")
    floor, other_floor = inner[0] if inner[1:] else "", other_inner[0] if other_inner[1:] else ""
    if room not in ROOMS and room not in GUESTS:
        return f"{file} -> {target}: {room} has no place in the order"
    if room in GUESTS:
        if other not in ROOMS and other != room and other not in GUESTS[room]:
            return f"{file} -> {target}: {room} may not use {other}"
        mine, its = (next((package for package in PACKAGES if path.startswith(package + "/")), None) for path in (file, target))
        return f"{file} -> {target}: these packages do not import each other" if mine and its and mine != its else None
    if other not in ROOMS:
        return f"{file} -> {target}: {other} is not a room that others may include"
    if ROOMS.index(other) > ROOMS.index(room):
        return f"{file} -> {target}: {other} comes after {room}"
    if room == other and room in FLOORS:
        for name in (floor, other_floor):
            if name not in FLOORS[room]:
                return f"{file} -> {target}: {room}/{name} has no place in the order"
        if FLOORS[room].index(other_floor) > FLOORS[room].index(floor):
            return f"{file} -> {target}: {f'{room}/{other_floor}'.rstrip('/')} comes after {f'{room}/{floor}'.rstrip('/')}"
    if room == other and room in SEPARATE and other_floor not in ("", floor):
        return f"{file} -> {target}: the folders of {room} stay apart"
    return None


def circles_of(graph):
    """Circles of a graph: at least one of every knot, as a list of nodes."""
    found, path, done = [], [], set()

    def visit(node):
        path.append(node)
        for target in sorted(graph.get(node, ())):
            if target in path:
                found.append([*path[path.index(target):], target])
            elif target not in done:
                visit(target)
        done.add(path.pop())

    for node in sorted(graph):
        if node not in done:
            visit(node)
    return found


def device_files(graph):
    """What GPU code is compiled from: kernels and all that they include."""
    reached, waiting = set(), [file for file in graph if file.endswith(".cu")]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += graph.get(file, ())
    return reached


def problems_of(root):
    """(problems, number of files, number of arrows) of a tree."""
    files, graph, folders, problems, counting = files_of(root), {}, {}, [], {}
    for file in sorted(files):
        text = (pathlib.Path(root) / file).read_text(encoding="utf-8", errors="replace")
        counting[file] = HOST_BITS.search(text) if file != BITS else None
        graph[file], missing = (imports_of if file.endswith(".py") else includes_of)(file, text, files)
        problems += missing
        if not file.startswith("tests/"):
            problems += [f"{file} has {name}, an object that begins as null: = Json::object()"
                         for name in NULL_OBJECT.findall(text)]
        for target in sorted(graph[file]):
            wrong, folder, other = complaint(file, target), os.path.dirname(file), os.path.dirname(target)
            problems += [wrong] if wrong else []
            if not wrong and folder != other and file.split("/")[0] == target.split("/")[0] in ROOMS:
                folders.setdefault(folder, set()).add(other)
    problems += [f"{file} has {counting[file][0]}, which nvcc may turn into 0: {BITS} counts bits for a GPU too"
                 for file in sorted(device_files(graph)) if counting.get(file)]
    problems += ["circle: " + " -> ".join(circle) for circle in circles_of(graph)]
    problems += ["circle of folders: " + " -> ".join(circle) for circle in circles_of(folders)]
    return problems, len(files), sum(map(len, graph.values()))


# Files with their texts, and the lines that they add together.
PLANTED = {
    "formats/planted.hpp": "#include <halfulp/data/planted.hpp>\n", "data/planted.hpp": "#pragma once\n",
    "support/planted.cpp": "  #  include <tests/planted.hpp>\n", "tests/planted.hpp": "",
    "emulation/array/planted.cpp": "#include <halfulp/emulation/block/planted.hpp>\n", "emulation/block/planted.hpp": "",
    "training/layers/planted.cpp": "#include \"../planted.hpp\"\n", "training/planted.hpp": "",
    "training/planted.cu": "#include <halfulp/training/planted/planted.cuh>\n", "training/planted/planted.cuh": "",
    "experiments/planted_a/a.cpp": "#include <halfulp/experiments/planted_b/b.hpp>\n", "experiments/planted_b/b.hpp": "",
    "report/planted_a/a.hpp": "#include <halfulp/report/planted_b/b.hpp>\n", "report/planted_b/b.hpp": "#include <halfulp/report/planted_a/a.hpp>\n",
    "report/planted.hpp": "#include <halfulp/report/nowhere.hpp>\n",
    "cuda/planted.cu": "#include <halfulp/formats/planted_bits.hpp>\n", "formats/planted_bits.hpp": "int f() { return std::bit_width(1U); }\n",
    "report/planted.cpp": "void f() {\n  Json json;\n  for (int i : all)\n    json[\"x\"] = i;\n}\n",
    "planted/planted.def": "#include <halfulp/support/nothing.hpp>\n", "support/nothing.hpp": "",
    "benchmarks/planted.cpp": "#include <halfulp/tests/planted.hpp>\n",
    "python/halfulp_page/planted.py": "def f():\n    from halfulp.planted import g\n", "python/halfulp/planted.py": "",
    "python/halfulp/planted_a.py": "from . import planted_b\n", "python/halfulp/planted_b.py": "from .planted_a import name\n",
    "python/halfulp/planted_c.py": "from .nowhere import name\n",
}
EXPECTED = [
    "formats/planted.hpp -> data/planted.hpp: data comes after formats",
    "support/planted.cpp -> tests/planted.hpp: tests is not a room that others may include",
    "emulation/array/planted.cpp -> emulation/block/planted.hpp: emulation/block comes after emulation/array",
    "training/layers/planted.cpp -> training/planted.hpp: training comes after training/layers",
    "training/planted.cu -> training/planted/planted.cuh: training/planted has no place in the order",
    "experiments/planted_a/a.cpp -> experiments/planted_b/b.hpp: the folders of experiments stay apart",
    "circle: report/planted_a/a.hpp -> report/planted_b/b.hpp -> report/planted_a/a.hpp",
    "circle of folders: report/planted_a -> report/planted_b -> report/planted_a",
    "formats/planted_bits.hpp has std::bit_width, which nvcc may turn into 0: formats/bits.hpp counts bits for a GPU too",
    "report/planted.hpp includes halfulp/report/nowhere.hpp, which does not exist",
    "report/planted.cpp has json, an object that begins as null: = Json::object()",
    "planted/planted.def -> support/nothing.hpp: planted has no place in the order",
    "benchmarks/planted.cpp -> tests/planted.hpp: benchmarks may not use tests",
    "python/halfulp_page/planted.py -> python/halfulp/planted.py: these packages do not import each other",
    "circle: python/halfulp/planted_a.py -> python/halfulp/planted_b.py -> python/halfulp/planted_a.py",
    "python/halfulp/planted_c.py imports nowhere.name, which does not exist",
]


def test_itself(root):
    """Whether the planted mistakes add exactly their lines to those of an unchanged copy."""
    with tempfile.TemporaryDirectory(prefix="halfulp-house-") as name:
        copy = pathlib.Path(name)
        for file in files_of(root):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(os.path.join(root, file), copy / file)
        before = problems_of(copy)[0]
        for file, text in PLANTED.items():
            (copy / file).parent.mkdir(exist_ok=True)
            (copy / file).write_text(text, encoding="utf-8")
        added = [line for line in problems_of(copy)[0] if line not in before]
    wrong = [f"not found: {line}" for line in EXPECTED if line not in added] + [f"not planted: {line}" for line in added if line not in EXPECTED]
    print("\n".join([*wrong, f"{len(EXPECTED)} planted mistakes, {len(wrong)} of them not found as they should be"]))
    return not wrong


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    if sys.argv[1:] == ["--itself"]:
        return 0 if test_itself(root) else 1
    problems, files, arrows = problems_of(sys.argv[1] if len(sys.argv) > 1 else root)
    print("\n".join([*problems, f"{files} files, {arrows} arrows, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
