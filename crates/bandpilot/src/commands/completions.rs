//! `bandpilot completions`.

use std::io::{self, Write};

use clap::CommandFactory as _;
use serde_json::{Value, json};

use crate::cli::{Cli, Completions};
use crate::output::{Done, Output};

struct Script {
    shell: String,
    text: Vec<u8>,
}

/// The completion script of a shell.
pub fn completions(args: &Completions) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bandpilot", &mut text);
    Done::ok(Script { shell: args.shell.to_string(), text })
}

impl Output for Script {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        w.write_all(&self.text)
    }

    fn json(&self) -> Value {
        json!({"shell": self.shell, "script": String::from_utf8_lossy(&self.text)})
    }
}
