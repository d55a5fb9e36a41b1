//! From cells to links: what a cut dump still says, and whether NVSwitch joins the GPUs.

use bandpilot_core::{
    LinkClass, Links, counted, only_a_switch_explains, shares_nvlinks, switched_links,
};

use super::table::Table;
use crate::Diagnostic;

/// The links of a table's GPUs; `None` if they cannot be known.
pub(super) fn links(table: &Table, diagnostics: &mut Vec<Diagnostic>) -> Option<Links> {
    let gpus = table.gpus;
    let mut cells: Vec<Option<LinkClass>> = vec![None; gpus * gpus];
    let (mut one_sided, mut sound) = (0, true);
    for a in 0..gpus {
        cells[a * gpus + a] = Some(LinkClass::Sys);
        for b in a + 1..gpus {
            match table.link(a, b, diagnostics) {
                Ok(Some((class, alone))) => {
                    cells[a * gpus + b] = Some(class);
                    cells[b * gpus + a] = Some(class);
                    one_sided += usize::from(alone);
                }
                Ok(None) => {}
                Err(_) => sound = false,
            }
        }
    }
    if !sound {
        return None;
    }
    report_missing(table, one_sided, diagnostics);
    let cells = fill(table, cells, diagnostics)?;
    if let Some(links) = switched_links(&cells, gpus) {
        let message = format!("NVSwitch: every pair has NV{links}, which only a switch explains");
        diagnostics.push(Diagnostic::note("links", message).at(table.line, 0));
        return Some(Links::NvSwitch);
    }
    lost_nvlinks(table, &cells, diagnostics);
    Some(Links::Matrix(cells))
}

fn report_missing(table: &Table, one_sided: usize, diagnostics: &mut Vec<Diagnostic>) {
    let rows = table.missing_rows(true);
    let mut parts = Vec::new();
    if !rows.is_empty() {
        parts.push(format!("no whole row of {}", rows.join(", ")));
    }
    if one_sided > 0 {
        parts.push(format!("{one_sided} GPU links were taken from the other direction"));
    }
    if parts.is_empty() {
        return;
    }
    let message = format!("the dump is cut: {}", parts.join("; "));
    let help = "run nvidia-smi topo -m again and keep all of it";
    diagnostics.push(Diagnostic::warning("", message).at(table.last_line, 0).help(help));
}

/// Fills cells that neither direction has, where an NVSwitch must join all GPUs; `None` if it need not.
fn fill(
    table: &Table,
    cells: Vec<Option<LinkClass>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<LinkClass>> {
    let gpus = table.gpus;
    let pairs = || (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b)));
    let unknown: Vec<(usize, usize)> =
        pairs().filter(|(a, b)| cells[a * gpus + b].is_none()).collect();
    let Some((a, b)) = unknown.first() else {
        return cells.into_iter().collect();
    };
    let mut known = pairs().filter_map(|(a, b)| cells[a * gpus + b]);
    let first = known.next();
    let alike = first.filter(|first| known.all(|class| class == *first));
    // One whole row is needed: only then is it known of every GPU that it reaches the switch.
    let reached = (0..gpus).any(|a| (0..gpus).all(|b| cells[a * gpus + b].is_some()));
    let (label_a, label_b) = (table.label(*a), table.label(*b));
    match alike {
        Some(class @ LinkClass::Nv(links)) if reached && only_a_switch_explains(links, gpus) => {
            let message = format!(
                "the dump lacks {}, {label_a} to {label_b} first; all others are {class}, which only NVSwitch explains: taken to be the same",
                counted(unknown.len(), "link")
            );
            diagnostics.push(
                Diagnostic::warning("links", message)
                    .at(table.last_line, 0)
                    .help("run nvidia-smi topo -m again to be sure"),
            );
            Some(cells.into_iter().map(|cell| cell.unwrap_or(class)).collect())
        }
        _ => {
            let message = format!(
                "the dump is cut: it lacks {}, {label_a} to {label_b} first",
                counted(unknown.len(), "link")
            );
            let help = "run nvidia-smi topo -m again and keep all of it";
            diagnostics.push(Diagnostic::error("links", message).at(table.last_line, 0).help(help));
            None
        }
    }
}

/// Names the GPUs of an NVSwitch host that do not reach the others as the rest does.
fn lost_nvlinks(table: &Table, cells: &[LinkClass], diagnostics: &mut Vec<Diagnostic>) {
    let gpus = table.gpus;
    let widest = cells.iter().filter(|class| matches!(class, LinkClass::Nv(_))).max();
    let Some(&usual) = widest.filter(|_| shares_nvlinks(cells, gpus)) else { return };
    let peers = |gpu: usize| (0..gpus).filter(move |other| *other != gpu);
    let outside = |gpu: &usize| peers(*gpu).all(|other| cells[gpu * gpus + other] != usual);
    let lost: Vec<usize> = (0..gpus).filter(outside).collect();
    for &gpu in &lost {
        let mut shown: Vec<LinkClass> = peers(gpu).map(|other| cells[gpu * gpus + other]).collect();
        shown.sort_unstable();
        shown.dedup();
        let shown: Vec<String> = shown.iter().map(ToString::to_string).collect();
        let message = format!(
            "GPU{gpu} reaches the others by {}, while they have {usual} among themselves: it has lost NVLinks; the host is not taken as NVSwitch",
            shown.join(", ")
        );
        let help = "check it with nvidia-smi nvlink -s";
        let field = format!("GPU{gpu}");
        diagnostics.push(Diagnostic::warning(field, message).at(table.line, 0).help(help));
    }
    let odd = (0..gpus)
        .flat_map(|a| (a + 1..gpus).map(move |b| (a, b)))
        .filter(|(a, b)| !lost.contains(a) && !lost.contains(b))
        .find(|(a, b)| cells[a * gpus + b] != usual);
    if let Some((a, b)) = odd {
        let message = format!(
            "GPU{a} to GPU{b} is {}, while other pairs are {usual}, which only NVSwitch explains: NVLinks are lost, or the dump is garbled",
            cells[a * gpus + b]
        );
        let help = "check it with nvidia-smi nvlink -s";
        let field = format!("GPU{a}/GPU{b}");
        diagnostics.push(Diagnostic::warning(field, message).at(table.line, 0).help(help));
    }
}
