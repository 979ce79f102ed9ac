#!/usr/bin/env bash
# test.sh TEST [MODULE...]: runs TEST.py of this folder with the first Python that has the modules of the page and the
# MODULEs. Prints "skipped: REASON" if there is none.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
needed=$(IFS=,; echo "matplotlib,jinja2${2:+,}${*:2}" | tr ' ' ,)
for python in ${HALFULP_PYTHON:-python3 /usr/bin/python3}; do
  if command -v "$python" >/dev/null && "$python" -c "import $needed" 2>/dev/null; then
    HALFULP_PYTHON=$(command -v "$python") exec "$python" -B -W ignore::ResourceWarning -m unittest "$1"
  fi
done
echo "skipped: no Python with $needed"
