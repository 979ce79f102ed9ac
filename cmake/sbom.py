#!/usr/bin/env python3
"""Writes what a package of halfulp consists of, as an SPDX 2.3 document beside it: PACKAGE.spdx.json.

usage: sbom.py PACKAGE...         (wheels, .deb and .tar.gz files; Debian's dpkg says which versions are here)

Listed are halfulp, each library of another project in the package, with its checksum, and each project whose headers
were compiled in. Times are SOURCE_DATE_EPOCH's, so that the same package gives the same document. Exit status 2: a
library in the package is not in the table below.
"""
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

# A row: the project, how its library's name begins (None: only headers), its Debian package, its licence, its home.
PROJECTS = [
    ("oneTBB", "libtbb", "libtbb-dev", "Apache-2.0", "https://github.com/uxlfoundation/oneTBB"),
    ("Highway", "libhwy", "libhwy-dev", "Apache-2.0 OR BSD-3-Clause", "https://github.com/google/highway"),
    ("fmt", "libfmt", "libfmt-dev", "MIT", "https://github.com/fmtlib/fmt"),
    ("zlib", "libz", "zlib1g-dev", "Zlib", "https://zlib.net"),
    ("libstdc++", "libstdc++", "libstdc++6", "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org"),
    ("libgcc", "libgcc_s", "libgcc-s1", "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org"),
    ("Boost", None, "libboost-dev", "BSL-1.0", "https://www.boost.org"),
    ("Eigen", None, "libeigen3-dev", "MPL-2.0", "https://eigen.tuxfamily.org"),
    ("JSON for Modern C++", None, "nlohmann-json3-dev", "MIT", "https://github.com/nlohmann/json"),
    ("CLI11", None, "libcli11-dev", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11"),
    ("Random123", None, "librandom123-dev", "BSD-3-Clause", "https://github.com/DEShawResearch/random123"),
    ("xxHash", None, "libxxhash-dev", "BSD-2-Clause", "https://github.com/Cyan4973/xxHash"),
    ("Valijson", None, "libvalijson-dev", "BSD-2-Clause", "https://github.com/tristanpenman/valijson"),
]
NANOBIND = ("nanobind", "BSD-3-Clause", "https://github.com/wjakob/nanobind")
HOME = "https://github.com/halfulp/halfulp"


def files_of(path):
    """(name, bytes) of each file in a package."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as package:
            yield from ((name, package.read(name)) for name in package.namelist())
        return
    if path.suffix == ".deb":
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout
        package = tarfile.open(fileobj=io.BytesIO(data))
    else:
        package = tarfile.open(path)
    with package:
        yield from ((entry.name, package.extractfile(entry).read()) for entry in package if entry.isfile())


def version_of(debian):
    """The version of a Debian package that is here, without Debian's own part; empty if it is not."""
    answer = subprocess.run(["dpkg-query", "-W", "-f=${Version}", debian], capture_output=True, text=True)
    if answer.returncode != 0 or not answer.stdout:  # headers that were only unpacked
        unpacked = sorted(pathlib.Path("build/headers").glob(f"{debian}_*.deb"))
        return re.sub(r"-[^-]*$", "", unpacked[0].name.split("_")[1].replace("%3a", ":")) if unpacked else ""
    return re.sub(r"^\d+:|-[^-]*$", "", answer.stdout)


def package(name, version, licence, home, digest=None, file=None):
    entry = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9]+", "-", file or name),
        "name": name,
        "versionInfo": version or "unknown",
        "downloadLocation": home,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }
    if digest:
        entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest}]
    if file:
        entry["packageFileName"] = file
    return entry


def document(path):
    data = path.read_bytes()
    version = re.match(r"halfulp[-_]([0-9.]+[0-9])", path.name).group(1)
    own = package("halfulp", version, "Apache-2.0", HOME, hashlib.sha256(data).hexdigest(), path.name)
    packages, relations = [own], [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    for name, content in files_of(path):
        library = pathlib.PurePath(name).name
        if not re.search(r"\.so(\.|$)", library) or library.startswith("_core"):
            continue
        row = next((row for row in PROJECTS if row[1] and re.match(re.escape(row[1]) + r"[-.]", library)), None)
        if not row:
            known = ", ".join(row[1] for row in PROJECTS if row[1])
            print(f"sbom.py: {path.name} holds {name}, of which nothing is known; accepted: {known}", file=sys.stderr)
            sys.exit(2)
        digest = hashlib.sha256(content).hexdigest()
        packages.append(package(row[0], version_of(row[2]), row[3], row[4], digest, library))
        relations.append((own["SPDXID"], "CONTAINS", packages[-1]["SPDXID"]))
    headers = [(row[0], version_of(row[2]), row[3], row[4]) for row in PROJECTS if not row[1]]
    if path.suffix == ".whl":
        headers.append((NANOBIND[0], version_of_module("nanobind"), *NANOBIND[1:]))
    for header in headers:
        packages.append(package(*header))
        relations.append((own["SPDXID"], "STATIC_LINK", packages[-1]["SPDXID"]))
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", path.stat().st_mtime))
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": path.name,
        "documentNamespace": f"{HOME}/spdx/{path.name}-{hashlib.sha256(data).hexdigest()}",
        "creationInfo": {"created": when, "creators": ["Organization: The halfulp developers"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": a, "relationshipType": relation, "relatedSpdxElement": b} for a, relation, b in relations
        ],
    }


def version_of_module(name):
    """Of the Python that builds the wheel."""
    python = pathlib.Path("build/python-venv/bin/python")
    answer = subprocess.run([python, "-c", f"import importlib.metadata as m; print(m.version('{name}'))"],
                            capture_output=True, text=True) if python.exists() else None
    return answer.stdout.strip() if answer and answer.returncode == 0 else ""


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        if not path.is_file() or not re.match(r"halfulp[-_][0-9.]+[0-9].*\.(whl|deb|tar\.gz)$", path.name):
            print(f"sbom.py: {name}: no package of halfulp; accepted: halfulp-*.whl, *.deb, *.tar.gz", file=sys.stderr)
            sys.exit(2)
        target = path.with_name(path.name + ".spdx.json")
        target.write_text(json.dumps(document(path), indent=1) + "\n")
        print(target)


if __name__ == "__main__":
    main()
