#!/usr/bin/env bash
# Fuzzes every reader, one after the other, from real files, recordings of Slurm, fuzz/seeds and the examples of the
# documentation.
#
#   scripts/fuzz.sh SECONDS DATA [TARGET...]
#
# SECONDS is for each target; DATA is the folder with field-files/, nccl-bandpilot/ and traces/. Needs the nightly toolchain
# and cargo-fuzz. Stops at the first crash; libFuzzer then says where the input is that causes it.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
seconds=$1
data=$2
shift 2
cd "$(dirname "$0")/.."
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT

# seed TARGET FILE [PREFIX...]: the file as it is, or once behind each prefix byte that the target takes for its options.
seed() {
    local target=$1 file=$2 prefix
    shift 2
    [ -f "$file" ] || return 0
    for prefix in "${@:-}"; do
        { printf '%b' "$prefix"; cat "$file"; } >"$corpus/$target/$(basename "$file")-${prefix#\\x}"
    done
}

# answers TARGET: each answer of Slurm in the recordings is a file. The key stdout is the last one of its line.
answers() {
    local target=$1 file line text number=0
    for file in crates/*/tests/recordings/*.jsonl docs/examples/*.recording; do
        while IFS= read -r line; do
            case $line in *'"stdout":"'*'"}') ;; *) continue ;; esac
            text=${line##*\"stdout\":\"}
            number=$((number + 1))
            text=${text%\"\}}
            printf '%b' "${text//\\\"/\\x22}" >"$corpus/$target/answer-$number"
        done <"$file"
    done
}

for target in "${targets[@]}"; do
    mkdir -p "$corpus/$target"
    for file in docs/examples/* docs/examples/*/* crates/bandpilot-dispatch/tests/cases/*; do
        seed "$target" "$file"
    done
    for file in "$data"/field-files/*/*; do
        case $target in
        nccl_tests) seed nccl_tests "$file" '\x00' '\x01' '\x09' '\x1a' ;;
        topo* | *topology* | slurm* | csv_tables) seed "$target" "$file" ;;
        esac
    done
    for file in "$data"/nccl-bandpilot/*.csv; do
        [ "$target" != csv_tables ] || head -c 4000 "$file" >"$corpus/csv_tables/$(basename "$file")"
    done
    for file in "$data"/traces/openb/openb_*.csv.gz; do
        # head closes the pipe before gzip is done.
        [ "$target" != openb ] || { gzip -dc "$file" || true; } 2>/dev/null | head -n 40 >"$corpus/openb/$(basename "$file" .gz)"
    done
    for file in crates/bandpilot/tests/recordings/*.audit.jsonl; do
        [ "$target" != audit_file ] || seed audit_file "$file"
    done
    case $target in
    slurm_text | slurm_json | slurm_sacct) answers "$target" ;;
    esac
    for file in fuzz/seeds/"$target"/*; do
        seed "$target" "$file"
    done
    echo "== $target"
    log=$corpus/log
    if ! cargo +nightly fuzz run "$target" "$corpus/$target" -- -max_total_time="$seconds" \
        -max_len=16384 -timeout=10 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log"
        exit 1
    fi
    grep -E 'number_of_executed_units|^Done' "$log"
done
