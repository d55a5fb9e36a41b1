#!/usr/bin/env bash
# Runs all tests and says how many of them did nothing because the real measurements or programs are not there.
# The measurements are looked for in the folder that BANDPILOT_DATA names, else in ../shared/data beside the clone.
# Programs that tests need are installed where that is possible (scripts/test-deps.sh).
# With BANDPILOT_FORBID_SKIPS set, a skipped test is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -d "${BANDPILOT_DATA:-}" ]; then
    BANDPILOT_DATA=$(cd "$BANDPILOT_DATA" && pwd)
    export BANDPILOT_DATA
fi
scripts/test-deps.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BANDPILOT_SKIP_LOG=$work/skipped CARGO_TERM_COLOR=never
touch "$BANDPILOT_SKIP_LOG"

status=0
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$work/log" || status=$?

count() { awk -v word="$1" '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ "^" word) n += $(i - 1) } END { print n + 0 }' "$work/log"; }
sort -u "$BANDPILOT_SKIP_LOG" >"$work/names"
skipped=$(wc -l <"$work/names")

if [ "$skipped" -gt 0 ]; then
    printf '\n%s tests did nothing, for lack of data or programs:\n' "$skipped"
    sed 's/^SKIPPED-DATA: /  /' "$work/names"
    if [ -n "${BANDPILOT_FORBID_SKIPS:-}" ]; then
        echo "error: none of them may be skipped here"
        status=1
    fi
fi

printf '\n%s passed, %s failed, %s skipped\n' \
    "$(($(count passed) - skipped))" "$(count failed)" "$(($(count ignored) + skipped))"
exit "$status"
