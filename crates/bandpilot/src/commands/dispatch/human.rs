//! The answer for people.

use std::io::{self, Write};

use bandpilot_core::format_bytes;
use bandpilot_dispatch::Tradeoff;
use bandpilot_dispatch::answer::Valued;

use super::Shown;
use super::request::Size;
use crate::commands::parts;
use crate::output::{counted, table, write_table};

/// Writes all of it.
///
/// # Errors
/// If writing fails.
pub fn write(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    let Shown { ground, answer, .. } = shown;
    parts::write_head(w, ground, &[&shown.model])?;
    write_title(shown, w)?;
    parts::write_set(w, &ground.cluster, &answer.chosen.placement)?;
    parts::write_worth(w, &answer.chosen, &answer.grounds)?;
    if answer.chosen.placement.gpus() > 1 {
        parts::write_certificate(w, answer, "")?;
    }
    parts::write_protection(w, shown.asked.request.protect, &answer.harm)?;
    parts::write_spares(w, &ground.cluster, &answer.spares)?;
    write_tradeoff(shown, w)?;
    write_instances(shown, w)?;
    write_alternatives(shown, w)?;
    write_compared(shown, w)?;
    parts::write_harm(w, &ground.state, &answer.harm)?;
    parts::write_environment(w, &answer.launch)?;
    parts::write_rank_order(w, &answer.launch)?;
    parts::write_commands(w, &answer.launch)
}

fn write_title(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    let request = &shown.asked.request;
    write!(w, "{}", counted(request.gpus, "GPU"))?;
    if let Size::Instances { count, gpus } = shown.asked.size {
        write!(w, " in {} of {gpus}", counted(count, "instance"))?;
    }
    writeln!(w, " for {} of {}", shown.collective, format_bytes(request.bytes))
}

/// What was given up, and what each choice leaves.
fn write_tradeoff(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    let Some(tradeoff) = &shown.answer.tradeoff else { return Ok(()) };
    let Tradeoff { share, best, price, proven, .. } = tradeoff;
    let of_best = if best.effective > 0.0 { price / best.effective } else { 0.0 };
    writeln!(
        w,
        "tradeoff    {price:.1} GB/s given up, {} of the best ({} allowed): {}",
        parts::per_cent(of_best),
        parts::per_cent(*share),
        match (proven, tradeoff.avoidable_bound) {
            (true, _) => "no set within that leaves less fragmentation".to_owned(),
            (false, Some(bound)) => format!(
                "the search ended before less fragmentation was ruled out; no set within that leaves fewer than {}",
                counted(bound, "avoidable partial host")
            ),
            (false, None) => "less fragmentation was not ruled out".to_owned(),
        }
    )?;
    let mut rows =
        table(&["", "EFFECTIVE", "AVOIDABLE PARTIAL HOSTS", "PARTIAL HOSTS", "HOSTS IN USE"]);
    for (what, effective, left) in [
        ("now", None, tradeoff.before),
        ("after the best set", Some(best.effective), tradeoff.best_leaves),
        ("after the chosen set", Some(shown.answer.chosen.effective), tradeoff.leaves),
    ] {
        let at_most = if left.exact { "" } else { "at most " };
        rows.add_row([
            what.to_owned(),
            parts::gbytes(effective.unwrap_or(0.0)),
            format!("{at_most}{}", left.avoidable),
            left.partial.to_string(),
            left.in_use.to_string(),
        ]);
    }
    writeln!(w)?;
    write_table(w, &rows)
}

fn write_instances(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    if shown.instances.is_empty() {
        return Ok(());
    }
    let mut rows = table(&["INSTANCE", "HOST", "GPUS", "INSIDE"]);
    for (number, instance) in shown.instances.iter().enumerate() {
        rows.add_row([
            number.to_string(),
            shown.ground.cluster.host(instance.host).name.clone(),
            instance.gpus.to_string(),
            parts::gbytes(instance.inside.unwrap_or(0.0)),
        ]);
    }
    writeln!(w)?;
    write_table(w, &rows)
}

fn write_alternatives(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    let mut rows = table(&["ALTERNATIVE", "GPUS", "ISOLATED", "EFFECTIVE"]);
    for (kind, set) in alternatives(shown) {
        let same = set.placement == shown.answer.chosen.placement;
        rows.add_row([
            format!("{}{}", kind.replace('_', " "), if same { " (chosen)" } else { "" }),
            set.placement.display(&shown.ground.cluster),
            parts::gbytes(set.isolated),
            parts::gbytes(set.effective),
        ]);
    }
    if rows.row_count() > 0 {
        writeln!(w)?;
        write_table(w, &rows)?;
    }
    Ok(())
}

/// The other sets that the answer names.
pub fn alternatives(shown: &Shown) -> impl Iterator<Item = (&'static str, &Valued)> {
    let runner_up = shown.answer.runner_up.as_ref().map(|set| ("runner_up", set));
    let compact = shown.answer.most_compact.as_ref().map(|set| ("most_compact", set));
    let best = shown.answer.tradeoff.as_ref().map(|tradeoff| ("best_bandwidth", &tradeoff.best));
    best.into_iter().chain(runner_up).chain(compact)
}

fn write_compared(shown: &Shown, w: &mut dyn Write) -> io::Result<()> {
    if shown.compared.is_empty() {
        return Ok(());
    }
    let header = ["RULE", "GPUS", "ISOLATED", "EFFECTIVE", "OF CHOSEN", "GREATEST LOSS", ""];
    let mut rows = table(&header);
    for rule in &shown.compared {
        let of_chosen = shown.of_chosen(rule).map_or_else(|| "-".to_owned(), parts::per_cent);
        rows.add_row([
            rule.policy.name().to_owned(),
            rule.set.placement.display(&shown.ground.cluster),
            parts::gbytes(rule.set.isolated),
            parts::gbytes(rule.set.effective),
            of_chosen,
            parts::per_cent(rule.greatest_loss),
            if rule.meets_request { "" } else { "does not meet the request" }.to_owned(),
        ]);
    }
    writeln!(w)?;
    write_table(w, &rows)
}
