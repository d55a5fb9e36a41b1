//! Keeps `docs/reference/cli.md` what the argument definitions say.
//!
//! (`clap-markdown` was looked at: it makes a list an option with headings of its own; a table is easier
//! to read, and one page of code makes it.)

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::cli::Cli;

const HEAD: &str = "# The command line

<!-- Made from the argument definitions; `BANDPILOT_UPDATE_DOCS=1 cargo test -p bandpilot cli_reference` makes it anew. -->

All commands take `--json`: then stdout has exactly one JSON value, the result or `{\"error\": ...}`
([dispatch](dispatch-json.md), [dispatch --parallel](parallel-json.md), [explain](explain-json.md),
[evaluate](evaluate-json.md), [simulate](simulate-json.md), [windows](windows.md#json), [fill](fill.md), [all others](json.md)). Without it the
result is on stdout and remarks are on stderr. A command that fails prints nothing on stdout and has changed no file.
";

/// The page.
fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = HEAD.to_owned();
    section(&root, &mut text);
    text
}

fn section(command: &Command, text: &mut String) {
    let children: Vec<&Command> =
        command.get_subcommands().filter(|child| child.get_name() != "help").collect();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let stop = if about.ends_with(['.', '?']) { "" } else { "." };
    write!(text, "\n## `{name}`\n\n{about}{stop}\n").unwrap();
    if children.is_empty() {
        let usage = command.clone().render_usage().to_string();
        write!(text, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage: ")).unwrap();
    } else {
        text.push_str("\n| command | |\n|---|---|\n");
        for child in &children {
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "| `{}` | {about} |", child.get_name()).unwrap();
        }
    }
    let shown = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version" | "json");
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !args.is_empty() {
        text.push_str("\n| argument | default | |\n|---|---|---|\n");
        for arg in args {
            row(arg, text);
        }
    }
    if let Some(after) = command.get_after_help() {
        write!(text, "\n```text\n{after}\n```\n").unwrap();
    }
    for child in children {
        section(child, text);
    }
}

fn row(arg: &Arg, text: &mut String) {
    let values = arg.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let values = values.collect::<Vec<_>>().join(" ");
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue);
    let name = match arg.get_long() {
        Some(long) if takes_value => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    };
    let default: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    let default = match (takes_value && !default.is_empty(), arg.is_required_set()) {
        (true, _) => format!("`{}`", default.join(" ")),
        (false, true) => "required".to_owned(),
        (false, false) => String::new(),
    };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible = arg.get_possible_values();
    if takes_value && !possible.is_empty() && !help.contains(possible[0].get_name()) {
        let names: Vec<String> = possible.iter().map(|v| format!("`{}`", v.get_name())).collect();
        write!(help, ": {}", names.join(", ")).unwrap();
    }
    writeln!(text, "| `{name}` | {default} | {help} |").unwrap();
}

#[test]
fn cli_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let made = page();
    if std::env::var_os("BANDPILOT_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/cli.md is stale; BANDPILOT_UPDATE_DOCS=1 cargo test -p bandpilot cli_reference"
    );
}
