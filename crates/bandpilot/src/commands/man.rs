//! `bandpilot man`.

use std::io::{self, Write};

use clap::CommandFactory as _;
use clap_mangen::Man as Page;
use serde_json::{Value, json};

use crate::cli::{Cli, Man};
use crate::exit::{Code, Failure};
use crate::io::{make_folder, replace};
use crate::output::{Done, Output, counted};
use bandpilot_readers::Diagnostic;

/// The manual page of the program, or files with those of all commands.
///
/// # Errors
/// If a page cannot be written.
pub fn man(args: &Man) -> Result<Done, Failure> {
    let mut root = Cli::command();
    root.build();
    let Some(folder) = &args.dir else {
        return Ok(Done::ok(Printed { page: page(&root)? }));
    };
    let mut pages = Vec::new();
    collect(&root, &mut pages)?;
    make_folder(folder)?;
    let mut written = Vec::new();
    for (name, text) in pages {
        let path = folder.join(name);
        replace(&path, &text)?;
        written.push(path.display().to_string());
    }
    Ok(Done::ok(Written { folder: folder.display().to_string(), written }))
}

/// The pages of a command and of all below it, with their file names.
fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    pages.push((format!("{name}.1"), page(command)?));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        collect(below, pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Page::new(command.clone()).render(&mut text).map_err(|error| {
        let reason = Diagnostic::error("", format!("failed to make the page: {error}"));
        Failure::new(Code::Internal, "", reason)
    })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct Printed {
    page: String,
}

impl Output for Printed {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        w.write_all(self.page.as_bytes())
    }

    fn json(&self) -> Value {
        json!({"page": self.page})
    }
}

struct Written {
    folder: String,
    written: Vec<String>,
}

impl Output for Written {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(w, "{}: {} written", self.folder, counted(self.written.len(), "page"))
    }

    fn json(&self) -> Value {
        json!({"written": self.written})
    }
}
