#!/usr/bin/env bash
# style.sh format|tidy VENV [--fix | BUILD FILE...]: the layout of all C++, CUDA and JavaScript by .clang-format, or what .clang-tidy finds in some sources.
# VENV has the versions that `run` installs: others lay out differently. Status 1: something is to be changed. Without them: "skipped: ...".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=$1 tool=$2/bin/clang-$1
if [ ! -x "$tool" ]; then
  echo "skipped: no $tool; ./run test installs it"
  exit 0
fi
case $what in
  format)
    mode=(--dry-run --Werror)
    [ "${3:-}" = --fix ] && mode=(-i)
    git ls-files -z '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.js' | grep -zv '^docs/' | xargs -0 "$tool" --style=file "${mode[@]}" ;;
  tidy)
    # Whatever gcc's command lines have that clang does not know is no finding.
    "$tool" --quiet -p "$3" --extra-arg=-Wno-everything "${@:4}" 2>/dev/null ;;
esac
