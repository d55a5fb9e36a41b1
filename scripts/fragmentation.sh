#!/usr/bin/env bash
# The figures on fragmentation of docs/evaluation.md: scripts/fragmentation.sh DATA [BANDPILOT [TRADEOFF_CURVE [FOLDER]]]
#
# Day windows of two Philly traces at three cluster sizes, as they are and with instances of odd sizes; then placements that do not move jobs and
# the tolerance of bandpilot-tradeoff with 30 % communication, the curve as a page in FOLDER.
set -euo pipefail
data=${1:?the folder with the data}
bandpilot=${2:-target/release/bandpilot}
curve=${3:-target/release/examples/tradeoff_curve}
folder=${4:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

policies=""
for placement in compass compass-printed compass-place-only best-fit packed fgd first-fit random drain repack; do
    policies+=",fifo/$placement"
done
for trace in philly-2017-82k muri-philly-trace2; do
    for mix in 0 0.005 0.05; do
        echo "## $trace, --mix $mix"
        "$bandpilot" windows --trace "$data/traces/$trace.csv.gz" --eta 0.85,0.9,0.95 --policy "${policies#,}" \
            --judge fifo/compass --migration-cost 8s --mix "$mix"
    done
done

"$bandpilot" cluster example het-4mix > "$work/example.toml"
sed 's/^names = "\(.*\)"/names = "\1-[1-4]"/' "$work/example.toml" > "$work/mixed.toml"
awk '/^\[\[/ { kept = 0; block = "" } !/^\[\[/ && !seen { print; next } { seen = 1; block = block $0 "\n" }
     /^name = "V100"/ { kept = 1 } kept { printf "%s", block; block = "" }' "$work/example.toml" > "$work/mesh.toml"
printf '[[hosts]]\nnames = "v[1-16]"\ntype = "V100"\n' >> "$work/mesh.toml"
vc="--trace $data/traces/philly-vc-ee9e8c-1511.csv.gz --comm-share 0.3 --seeds 10"

run() { # name, where
    echo "## $1, 30 % communication"
    "$bandpilot" simulate $vc $2 --policy \
        fifo-skip/packed,fifo-skip/best-fit,fifo-skip/compass-place-only,fifo-skip/bandpilot-tradeoff,fifo-skip/bandpilot,fifo-skip/compass
    # shellcheck disable=SC2086
    "$curve" "$bandpilot" "$folder/tradeoff-$3.html" fifo-skip $vc $2
}
run "16 hosts of 8 H100" "--hosts 16x8" h100
run "16 hosts of 8 V100" "--cluster $work/mesh.toml" v100
run "4 hosts each of four models" "--cluster $work/mixed.toml" mixed
