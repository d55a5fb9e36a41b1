//! Tables of hosts and their leaf switches: CSV with a column for the host (`node`, `host`, `hostname` or `name`)
//! and one for the leaf (`ASW`, `leaf`, `tor` or `switch`). Other columns, such as switches above, are not used.

use std::collections::BTreeMap;

use crate::csv_lines::Lines;
use crate::slurm::Leaf;
use crate::{Diagnostic, Parsed, hostlist};

const HOST: [&str; 4] = ["node", "host", "hostname", "name"];
const LEAF: [&str; 5] = ["ASW", "asw", "leaf", "tor", "switch"];

/// True if the text begins with the header of such a table.
pub fn is_leaf_map(text: &str) -> bool {
    Lines::new(text).is_some_and(|lines| columns(&lines).is_some())
}

fn columns(lines: &Lines<'_>) -> Option<(&'static str, &'static str)> {
    let host = HOST.into_iter().find(|name| lines.has(name))?;
    Some((host, LEAF.into_iter().find(|name| lines.has(name))?))
}

/// Reads the leaf of every host. Wrong rows are left out.
///
/// ```
/// let read = bandpilot_readers::leaf_map::read("node,ASW,PSW\nh1,S14,P10\n");
/// assert_eq!(read.value["h1"].name, "S14");
/// ```
pub fn read(text: &str) -> Parsed<BTreeMap<String, Leaf>> {
    let mut diagnostics = Vec::new();
    let mut leaves: BTreeMap<String, Leaf> = BTreeMap::new();
    let table = Lines::new(text);
    let Some((lines, (host_column, leaf_column))) =
        table.as_ref().and_then(|lines| Some((lines, columns(lines)?)))
    else {
        let help = "the first line names the columns, for example node,ASW";
        let reason = Diagnostic::error("", "there is no column of hosts and one of leaves");
        return Parsed { value: leaves, diagnostics: vec![reason.help(help)] };
    };
    for row in lines.rows() {
        let error =
            |field: &str, message: String| Diagnostic::error(field, message).at(row.line, 0);
        let (host, leaf) = (row.get(host_column), row.get(leaf_column));
        if row.len() != lines.width() {
            let message = format!("{} cells below {} columns", row.len(), lines.width());
            diagnostics.push(error("", message));
        } else if !hostlist::is_host_name(host) {
            diagnostics.push(error(host_column, format!("'{host}' is not a host name")));
        } else if leaf.is_empty() {
            diagnostics.push(error(leaf_column, "is empty".to_owned()));
        } else {
            let entry = Leaf { name: leaf.to_owned(), line: row.line };
            let before = leaves.insert(host.to_owned(), entry);
            if let Some(before) = before.filter(|before| before.name != leaf) {
                let message =
                    format!("'{host}' hangs on '{}' in line {}", before.name, before.line);
                diagnostics.push(error(host_column, message).help("keep one of the rows"));
            }
        }
    }
    diagnostics.truncate(crate::diagnostic::MAX_REMARKS);
    Parsed { value: leaves, diagnostics }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read as _;

    use super::*;
    use crate::Severity;

    #[test]
    fn wrong_rows_are_named_and_left_out() {
        let text = "node,ASW\nh1,S1\nh 2,S1\nh3,\nh4\nh1,S2\n";
        let read = read(text);
        let lines: Vec<u32> = read.diagnostics.iter().map(|d| d.line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
        assert!(read.diagnostics.iter().all(|d| d.severity == Severity::Error));
        assert_eq!(read.value.len(), 1);
        assert!(!is_leaf_map("a,b\n1,2\n") && !is_leaf_map(""));
    }

    #[test]
    fn a_real_map_of_847_hosts() {
        let Some(data) = bandpilot_testdata::require_data("leaf_map::a_real_map") else { return };
        let path = data.join("traces/nodes/lingjun-2023-topo-847-hosts.csv.gz");
        let mut text = String::new();
        let packed = std::fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let read = read(&text);
        assert_eq!(read.diagnostics, []);
        assert_eq!(read.value.len(), 847);
        let leaves: BTreeSet<&str> = read.value.values().map(|leaf| leaf.name.as_str()).collect();
        assert_eq!(leaves.len(), 48);
        assert_eq!(read.value["lj-000"], Leaf { name: "S14".to_owned(), line: 2 });
    }
}
