#!/usr/bin/env python3
"""A header as Doxygen reads it.

A comment behind several names belongs to each; a defaulted == compares all members. Tables that are lists of macro
rows (HALFULP_OPERATIONS) become plain enumerators with their comments, and constants lose initialisers that are such
lists.
"""
import re
import sys

SEVERAL = re.compile(r"^(\s+(?:static |const |constexpr |inline )*[\w:]+(?:<[^;=]*?>)?) "
                     r"(\w+(?: = [^;,]+|\{[^;]*?\})?(?:, \w+(?: = [^;,]+|\{[^;]*?\})?)+);\s+///< (.*)$")

LIST = re.compile(r"#define (HALFULP_\w+)\((?:MODE|OPERATION)\) *\\\n((?:.*\\\n)*.*\n)")
ROW = re.compile(r"(?:/\* (?P<comment>.*?) \*/\s*)?\b(?:MODE|OPERATION)\((?P<name>\w+)(?P<rest>.*?)\)"
                 r"\s*(?=/\*|\b(?:MODE|OPERATION)\(|\Z)", re.S)
ENUMERATORS = re.compile(r"#define HALFULP_ROW\((\w+), .*\) \1,\n\s*(HALFULP_\w+)\(HALFULP_ROW\)\n#undef HALFULP_ROW\n")
EXPANSION = re.compile(r"#define HALFULP_ROW(?:.*\\\n)*.*\n\s*HALFULP_\w+\(HALFULP_ROW\)\n#undef HALFULP_ROW\n")
INITIALISER = re.compile(r"^(inline constexpr auto \w+) = "
                         r"(?:std::to_array<[^\n]*\(\{|\[\] \{)\n(?:.*\n)*?\}(?:\)|\(\));$", re.M)


def enumerators(rows):
    """"name,  ///< what it is" for each row: its comment, else the last text in it."""
    lines = []
    for row in ROW.finditer(rows.replace("\\\n", "\n")):
        texts = re.findall(r'"([^"]*)"', row["rest"])
        lines.append(f"  {row['name']},  ///< {row['comment'] or texts[-1]}\n")
    return "".join(lines)


text = open(sys.argv[1], encoding="utf-8").read()
lists = dict(LIST.findall(text))
text = ENUMERATORS.sub(lambda m: enumerators(lists[m[2]]), text)
text = INITIALISER.sub(r"\1;", EXPANSION.sub("", text))
for line in text.splitlines(keepends=True):
    line = re.sub(r"(operator==\(.*\) const = default;)$", r"\1  ///< Whether all members are equal.", line)
    several = SEVERAL.match(line)
    if several:
        kind, names, text = several.groups()
        line = "".join(f"{kind} {name}; /**< {text} */" for name in re.split(r", (?=\w+(?: = |\{|,|$))", names)) + "\n"
    sys.stdout.write(line)
