//! The `bandpilot` command.
//!
//! Arguments are read in `cli`, files in `io`, and every command gives one `Output` that `output` prints
//! for people or as JSON. Exit codes are in `exit`.

mod cli;
#[cfg(test)]
mod cli_reference;
mod commands;
mod exit;
mod io;
mod output;

use std::ffi::OsString;
use std::process::ExitCode;

use bandpilot_slurm::submit::options::Program;
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use cli::{Cli, Cluster, Command, Measure, Slurm};
use exit::{Code, Failure};
use output::{Done, emit};

fn main() -> ExitCode {
    // What is not UTF-8 is refused by clap, with its name.
    let args = std::env::args_os().map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let parsed = match args {
        Ok(args) => Cli::try_parse_from(cli::sorted(args)),
        Err(_) => Cli::try_parse(),
    };
    match parsed {
        Ok(cli) => {
            let json = cli.json;
            emit(run(cli.command, json), json).into()
        }
        Err(error) => usage(&error).into(),
    }
}

fn run(command: Command, json: bool) -> Result<Done, Failure> {
    match command {
        Command::Dispatch(args) => commands::dispatch::dispatch(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Fit(args) => commands::fit::fit(&args),
        Command::Evaluate(args) => commands::evaluate::evaluate(&args),
        Command::Simulate(args) => commands::simulate::simulate(&args),
        Command::Windows(args) => commands::windows::windows(&args),
        Command::Fill(args) => commands::fill::fill(&args),
        Command::Cluster(Cluster::Show(args)) => commands::cluster::show(&args),
        Command::Cluster(Cluster::Check(args)) => commands::cluster::check(&args),
        Command::Cluster(Cluster::Import(args)) => commands::cluster_import::cluster_import(&args),
        Command::Cluster(Cluster::Example(args)) => Ok(commands::cluster::example(&args)),
        Command::Measure(Measure::Import(args)) => commands::measure::import(&args),
        Command::Measure(Measure::Show(args)) => commands::measure::show(&args),
        Command::Slurm(Slurm::State(args)) => commands::slurm::state(&args),
        Command::Slurm(Slurm::Config(args)) => commands::slurm::config(&args),
        Command::Slurm(Slurm::Doctor(args)) => commands::slurm::doctor(&args),
        Command::Slurm(Slurm::Verify(args)) => commands::slurm::verify::verify(&args),
        Command::Slurm(Slurm::Trace(args)) => commands::slurm::trace::trace(&args),
        Command::Sbatch(args) => commands::submit::submit(Program::Sbatch, &args, json),
        Command::Srun(args) => commands::submit::submit(Program::Srun, &args, json),
        Command::Completions(args) => Ok(commands::completions::completions(&args)),
        Command::Man(args) => commands::man::man(&args),
    }
}

/// Help and version go to stdout as they are; wrong arguments are an error like any other.
fn usage(error: &clap::Error) -> Code {
    let helped = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if helped || !std::env::args_os().any(|arg| arg == "--json") {
        // Nobody to tell if this cannot be written.
        let _ = error.print();
        return if helped { Code::Ok } else { Code::Usage };
    }
    let text = error.to_string();
    // The message, and what it lists: arguments that are missing, values that are possible.
    let message = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let message = message.collect::<Vec<_>>().join(" ");
    let first = message.trim_start_matches("error: ").to_owned();
    let argument = match error.get(ContextKind::InvalidArg) {
        // Without the value's name: `--gpus <N>`.
        Some(ContextValue::String(text)) => text.split(' ').next().unwrap_or(""),
        _ => "",
    };
    emit(Err(Failure::usage(argument, first, "run with --help for the usage")), true)
}
