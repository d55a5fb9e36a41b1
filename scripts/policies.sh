#!/usr/bin/env bash
# The policies of docs/evaluation.md on the Philly virtual cluster: scripts/policies.sh DATA [BANDPILOT]
#
# Three clusters of 128 GPUs: 16 hosts of H100, 16 hosts of V100 (cube mesh), 4 hosts each of four models.
set -euo pipefail
data=${1:?the folder with the data}
bandpilot=${2:-target/release/bandpilot}
trace=$data/traces/philly-vc-ee9e8c-1511.csv.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$bandpilot" cluster example het-4mix > "$work/example.toml"
sed 's/^names = "\(.*\)"/names = "\1-[1-4]"/' "$work/example.toml" > "$work/mixed.toml"
# The host type V100 alone.
awk '/^\[\[/ { kept = 0; block = "" } !/^\[\[/ && !seen { print; next } { seen = 1; block = block $0 "\n" }
     /^name = "V100"/ { kept = 1 } kept { printf "%s", block; block = "" }' "$work/example.toml" > "$work/mesh.toml"
printf '[[hosts]]\nnames = "v[1-16]"\ntype = "V100"\n' >> "$work/mesh.toml"

run() { # name, where, order, share of communication
    echo "## $1, $3, comm_share $4"
    local policies=()
    for placement in bandpilot bandpilot-whole packed best-fit random drain repack; do
        policies+=("$3/$placement")
    done
    "$bandpilot" simulate --trace "$trace" $2 --comm-share "$4" --seeds 10 \
        --policy "$(IFS=,; echo "${policies[*]}")"
}

for order in fifo-skip easy srtf; do
    run "16 hosts of 8 H100" "--hosts 16x8" "$order" 0.3
    run "16 hosts of 8 V100" "--cluster $work/mesh.toml" "$order" 0.3
    run "4 hosts each of 4090, V100, A6000, A800" "--cluster $work/mixed.toml" "$order" 0.3
done
