//! `bandpilot slurm config`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bandpilot_readers::{Diagnostic, Severity, hostlist};
use bandpilot_slurm::config::{
    self, Change, Fragments, Granularity, Group, Input, Options, Source, Text,
};
use serde_json::{Value, json};

use crate::cli::{SlurmConfig, SlurmGranularity};
use crate::commands::ground;
use crate::exit::{Code, Failure};
use crate::io::{make_folder, read_text, replace, write_new};
use crate::output::{Done, Output, counted, remarks_json};

/// Makes the lines of Slurm's files that make GPUs nameable.
///
/// # Errors
/// If a file cannot be read or is wrong, or a file to write is there already.
pub fn config(args: &SlurmConfig) -> Result<Done, Failure> {
    let mut remarks = ground::Remarks::new();
    let cluster = match &args.cluster {
        Some(path) => Some(ground::cluster(path, &mut remarks)?),
        None => None,
    };
    let slurm = Given::read(args.slurm_conf.as_deref())?;
    let gres = Given::read(args.gres_conf.as_deref())?;
    let topology = Given::read(args.topology_conf.as_deref())?;
    let input = Input {
        cluster: cluster.as_ref(),
        slurm: slurm.as_ref().map(Given::text),
        gres: gres.as_ref().map(Given::text),
        topology: topology.as_ref().map(Given::text),
    };
    let granularity = match args.granularity {
        SlurmGranularity::Gpu => Granularity::Gpu,
        SlurmGranularity::Island => Granularity::Island,
    };
    let options = Options { granularity, type_prefix: args.type_prefix.clone() };
    let (fragments, more) = config::config(&input, &options);
    remarks.extend(more.into_iter().map(|(file, remark)| {
        (if file.is_empty() { "bandpilot".to_owned() } else { file }, remark)
    }));
    let Some(fragments) = fragments else {
        remarks.sort_by_key(|(_, remark)| std::cmp::Reverse(remark.severity));
        return Err(Failure { code: Code::BadInput, reasons: remarks });
    };
    let files = files(&fragments);
    if let Some(out) = &args.out {
        write(out, &files, args.force)?;
    }
    let output =
        Made { fragments, files, options, out: args.out.clone(), remarks: remarks.clone() };
    Ok(Done { remarks, ..Done::ok(output) })
}

/// A file that was given.
struct Given {
    file: String,
    text: String,
}

impl Given {
    fn read(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        let read =
            |path: &Path| Ok(Self { file: path.display().to_string(), text: read_text(path)? });
        path.map(read).transpose()
    }

    fn text(&self) -> Text<'_> {
        Text { file: &self.file, text: &self.text }
    }
}

/// Names and texts of what is to be written.
fn files(fragments: &Fragments) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("slurm.conf.fragment", fragments.slurm_conf.clone()),
        ("gres.conf", fragments.gres_conf.clone()),
    ];
    files.extend(fragments.topology_conf.clone().map(|text| ("topology.conf", text)));
    files
}

fn write(folder: &Path, files: &[(&'static str, String)], force: bool) -> Result<(), Failure> {
    make_folder(folder)?;
    let exists = |path: PathBuf| {
        let reason = Diagnostic::error("--out", "the file is there already");
        let reason = reason.help("--force overwrites it");
        Failure::new(Code::BadInput, &path.display().to_string(), reason)
    };
    // All or none: one that is there is found before anything is written.
    if !force && let Some((name, _)) = files.iter().find(|(name, _)| folder.join(name).exists()) {
        return Err(exists(folder.join(name)));
    }
    for (name, text) in files {
        let path = folder.join(name);
        if force {
            replace(&path, text)?;
        } else if !write_new(&path, text)? {
            return Err(exists(path));
        }
    }
    Ok(())
}

struct Made {
    fragments: Fragments,
    files: Vec<(&'static str, String)>,
    options: Options,
    out: Option<PathBuf>,
    remarks: ground::Remarks,
}

impl Made {
    /// `a1,a2 (H100): g0 = 0, g1 = 1`.
    fn group(group: &Group) -> String {
        let names = hostlist::compress(group.hosts.iter().map(String::as_str));
        let model = group.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let types: Vec<String> =
            group.types.iter().map(|(kind, gpus)| format!("{kind}={gpus}")).collect();
        format!("{names}{model}: {}", types.join(" "))
    }

    const fn source(source: Source) -> &'static str {
        match source {
            Source::Measured => "measured with 22.05.8",
            Source::Read => "manual of 22.05",
        }
    }
}

impl Output for Made {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        if let Some(out) = &self.out {
            for (name, text) in &self.files {
                let lines = counted(text.lines().count(), "line");
                writeln!(w, "{}: {lines}", out.join(name).display())?;
            }
        } else {
            for (name, text) in &self.files {
                writeln!(w, "== {name}\n{text}")?;
            }
        }
        writeln!(w, "\nTypes and the GPUs that they stand for")?;
        for group in &self.fragments.groups {
            writeln!(w, "  {}", Self::group(group))?;
        }
        writeln!(w, "\nWhat changes")?;
        for Change { subject, what, now, instead, source } in &self.fragments.changes {
            writeln!(w, "  {subject}: {what}")?;
            writeln!(w, "    {now} ({})", Self::source(*source))?;
            if !instead.is_empty() {
                writeln!(w, "    instead: {instead}")?;
            }
        }
        if self.remarks.iter().any(|(_, remark)| remark.severity > Severity::Note) {
            writeln!(w, "\nRead the warnings before these files are used.")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let groups = self.fragments.groups.iter().map(|group| {
            let types = group
                .types
                .iter()
                .map(|(kind, gpus)| json!({"type": kind, "gpus": gpus.iter().collect::<Vec<_>>()}));
            json!({
                "hosts": group.hosts,
                "model": group.model,
                "types": types.collect::<Vec<_>>(),
            })
        });
        let files = self.files.iter().map(|(name, text)| json!({"name": name, "text": text}));
        let changes = self.fragments.changes.iter().map(|change| {
            json!({
                "subject": change.subject,
                "what": change.what,
                "now": change.now,
                "instead": change.instead,
                "measured": change.source == Source::Measured,
            })
        });
        json!({
            "granularity": match self.options.granularity {
                Granularity::Gpu => "gpu",
                Granularity::Island => "island",
            },
            "type_prefix": self.options.type_prefix,
            "out": self.out.as_ref().map(|out| out.display().to_string()),
            "files": files.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
            "changes": changes.collect::<Vec<_>>(),
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
