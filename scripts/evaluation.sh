#!/usr/bin/env bash
# Scores bandpilot on the published tables and prints the tables of docs/evaluation.md as Markdown (1 to 2 minutes).
#
#   scripts/evaluation.sh DATA [BANDPILOT]
#
# DATA is the folder with the tables (cross_H100_32gpu.csv, host_*.csv) or the one above it. BANDPILOT is
# the program; without it a release build is made. Each figure is the median over seeds 1 to 10.
set -euo pipefail

if [ $# -lt 1 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
data=$1
root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -ge 2 ]; then
    program=$2
else
    cargo build --release --quiet --manifest-path "$root/Cargo.toml" -p bandpilot
    program=${CARGO_TARGET_DIR:-$root/target}/release/bandpilot
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

for train in 95 0; do
    for cluster in h100-32 het-4mix; do
        for seed in 1 2 3 4 5 6 7 8 9 10; do
            "$program" evaluate --json --cluster "$cluster" --data "$data" --train "$train" \
                --repeats 50 --seed "$seed" >"$results/$train-$cluster-$seed.json"
        done
    done
done

python3 - "$results" <<'PYTHON'
import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])
CLUSTERS = [("h100-32", "H100"), ("het-4mix", "mixed")]
MODES = ["idle", "intensive", "common"]
# What crates/bandpilot-eval/tests/it/gates.rs asserts, in the order of the columns.
BARS = {
    (95, "mean"): ["99.85", "99.5", "99.5", "99.9", "99.8", "99.8"],
    (95, "p5"): ["99.5", "97.5", "97.5", "99.9", "99.0", "99.0"],
    (0, "mean"): ["99.5", "98.5", "98.5", "", "", ""],
}


def seeds(train, cluster):
    return [json.loads((folder / f"{train}-{cluster}-{seed}.json").read_text()) for seed in range(1, 11)]


def median(reports, mode, policy, key):
    return statistics.median(report["modes"][mode][policy][key] for report in reports)


def least(reports, mode, policy, key):
    return min(report["modes"][mode][policy][key] for report in reports)


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def columns():
    return [f"{name} {mode}" for _, name in CLUSTERS for mode in MODES]


for train in (95, 0):
    reports = {cluster: seeds(train, cluster) for cluster, _ in CLUSTERS}
    print(f"### bandpilot with {train} training vectors\n")
    cells = [(cluster, mode) for cluster, _ in CLUSTERS for mode in MODES]
    rows = []
    for title, key in [("mean", "mean"), ("5th percentile", "p5"), ("minimum", "min")]:
        rows.append([title] + [f"{median(reports[c], m, 'bandpilot', key):.2f}" for c, m in cells])
        if (train, key) in BARS:
            rows.append(["bar"] + BARS[train, key])
    rows.append(
        ["lowest mean of a seed"]
        + [f"{least(reports[c], m, 'bandpilot', 'mean'):.2f}" for c, m in cells]
    )
    table(["% of the optimum"] + columns(), rows)
    if train == 0:
        continue
    policies = list(reports["h100-32"][0]["modes"]["idle"])
    policies.sort(key=lambda p: -median(reports["h100-32"], "intensive", p, "mean"))
    for title, key in [("mean", "mean"), ("5th percentile", "p5")]:
        print(f"### All policies, {title}\n")
        rows = [[p] + [f"{median(reports[c], m, p, key):.1f}" for c, m in cells] for p in policies]
        table(["% of the optimum"] + columns(), rows)
    print("### Time of a decision, processor time in microseconds\n")
    rows = [
        [title] + [f"{median(reports[c], m, 'bandpilot', key):.0f}" for c, m in cells]
        for title, key in [("median", "dispatch_us_p50"), ("99th percentile", "dispatch_us_p99")]
    ]
    table(["bandpilot"] + columns(), rows)
PYTHON
