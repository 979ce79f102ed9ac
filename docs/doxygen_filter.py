#!/usr/bin/env python3
"""A header as Doxygen shall read it, line by line: a comment behind several names is that of each, and a defaulted == compares all members."""
import re
import sys

SEVERAL = re.compile(r"^(\s+(?:static |const |constexpr |inline )*[\w:]+(?:<[^;=]*?>)?) (\w+(?: = [^;,]+|\{[^;]*?\})?(?:, \w+(?: = [^;,]+|\{[^;]*?\})?)+);\s+///< (.*)$")

for line in open(sys.argv[1], encoding="utf-8"):
    line = re.sub(r"(operator==\(.*\) const = default;)$", r"\1  ///< Whether all members are equal.", line)
    several = SEVERAL.match(line)
    if several:
        kind, names, text = several.groups()
        line = "".join(f"{kind} {name}; /**< {text} */" for name in re.split(r", (?=\w+(?: = |\{|,|$))", names)) + "\n"
    sys.stdout.write(line)
