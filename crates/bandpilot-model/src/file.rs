//! The model file: JSON that a person can read, with a format name and a version.
//!
//! Every number is written so that it reads back to the same bits. Readers refuse files of a newer version, unknown keys, and numbers that
//! cannot be (not finite, negative bandwidths), with the line where serde met the fault.

use bandpilot_core::{Collective, GpuMask};
use serde::{Deserialize, Serialize};

use crate::model::{BandwidthModel, CrossEntry, CrossShare, ErrorBands, LocalEntry};
use crate::physics::CrossPhysics;
use crate::residual::{Features, Hyperparameters, Residual};

/// Version that this program writes, and the newest that it reads.
pub const VERSION: u32 = 2;
const FORMAT: &str = "bandpilot-model";

/// Why a model file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFileError {
    /// 1-based line, 0 if the fault has no place.
    pub line: u32,
    /// 1-based column, 0 if the fault has no place.
    pub column: u32,
    /// The key, if known.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    description: String,
    collective: String,
    physics: Physics,
    error_bands: Bands,
    correction: Correction,
    local: Vec<Local>,
    cross: Vec<Cross>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Physics {
    rail_efficiency: f64,
    ring_gain: f64,
    two_host_cap: f64,
    many_host_cap: f64,
    latency_us: f64,
    latency_per_rank_us: f64,
    tree_half_bytes: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bands {
    source: String,
    one_host: f64,
    inside_mesh: f64,
    two_hosts_even: f64,
    two_hosts_uneven: f64,
    many_hosts_even: f64,
    many_hosts_uneven: f64,
    measured: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Correction {
    log_kernel: [f64; 12],
    points: Vec<Point>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    hosts: u32,
    rails: u8,
    levels: u8,
    bytes: u64,
    weight: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Local {
    host: String,
    host_type: String,
    gpus: String,
    bytes: Option<u64>,
    busbw_gbytes_per_s: f64,
    readings: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cross {
    shares: Vec<Share>,
    bytes: u64,
    busbw_gbytes_per_s: f64,
    readings: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    host_type: String,
    count: u8,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    gpus: Option<String>,
}

/// The text of a model file.
pub fn write(model: &BandwidthModel) -> String {
    let file = File {
        format: FORMAT.to_owned(),
        version: VERSION,
        description: model.description.clone(),
        collective: model.collective.name().to_owned(),
        physics: Physics {
            rail_efficiency: model.physics.rail_efficiency,
            ring_gain: model.physics.ring_gain,
            two_host_cap: model.physics.two_host_cap,
            many_host_cap: model.physics.many_host_cap,
            latency_us: model.physics.latency_us,
            latency_per_rank_us: model.physics.latency_per_rank_us,
            tree_half_bytes: model.physics.tree_half_bytes,
        },
        error_bands: Bands {
            source: model.bands.source.clone(),
            one_host: model.bands.one_host,
            inside_mesh: model.bands.inside_mesh,
            two_hosts_even: model.bands.two_hosts_even,
            two_hosts_uneven: model.bands.two_hosts_uneven,
            many_hosts_even: model.bands.many_hosts_even,
            many_hosts_uneven: model.bands.many_hosts_uneven,
            measured: model.bands.measured,
        },
        correction: correction(&model.residual),
        local: model.local.iter().map(local).collect(),
        cross: model.cross.iter().map(cross).collect(),
    };
    // Plain data without maps or foreign types: serialising cannot fail.
    serde_json::to_string_pretty(&file).map_or_else(|_| String::new(), |text| text + "\n")
}

fn correction(residual: &Residual) -> Correction {
    let points = residual.points.iter().zip(&residual.weights);
    Correction {
        log_kernel: residual.hyperparameters.0,
        points: points
            .map(|(point, weight)| Point {
                hosts: point.hosts,
                rails: point.rails,
                levels: point.levels,
                bytes: point.bytes,
                weight: *weight,
            })
            .collect(),
    }
}

fn local(entry: &LocalEntry) -> Local {
    Local {
        host: entry.host.clone(),
        host_type: entry.host_type.clone(),
        gpus: entry.gpus.to_string(),
        bytes: entry.bytes,
        busbw_gbytes_per_s: entry.busbw_gbytes_per_s,
        readings: entry.readings,
    }
}

fn cross(entry: &CrossEntry) -> Cross {
    Cross {
        shares: entry
            .shares
            .iter()
            .map(|share| Share {
                host_type: share.host_type.clone(),
                count: share.count,
                gpus: share.gpus.map(|mask| mask.to_string()),
            })
            .collect(),
        bytes: entry.bytes,
        busbw_gbytes_per_s: entry.busbw_gbytes_per_s,
        readings: entry.readings,
    }
}

/// Reads a model file.
///
/// # Errors
/// What is wrong first.
pub fn read(text: &str) -> Result<BandwidthModel, ModelFileError> {
    let head: Head = serde_json::from_str(text)
        .map_err(|e| syntax(&e, "is this a model file? 'bandpilot fit --out FILE' writes them"))?;
    if head.format != FORMAT {
        let message = format!("format is '{}', not '{FORMAT}'", head.format);
        return Err(fault("format", message, "give a file written by 'bandpilot fit'"));
    }
    if head.version != VERSION {
        let message =
            format!("model version {} is not known; this program reads {VERSION}", head.version);
        let mend = if head.version < VERSION {
            "fit the model again from its measurements: the constants have another meaning now"
        } else {
            "update bandpilot, or fit the model again"
        };
        return Err(fault("version", message, mend));
    }
    let file: File = serde_json::from_str(text).map_err(|e| syntax(&e, "fit the model again"))?;
    build(file)
}

fn syntax(error: &serde_json::Error, help: &str) -> ModelFileError {
    ModelFileError {
        line: error.line() as u32,
        column: error.column() as u32,
        field: String::new(),
        message: error.to_string(),
        help: help.to_owned(),
    }
}

fn fault(field: &str, message: impl Into<String>, help: &str) -> ModelFileError {
    ModelFileError {
        line: 0,
        column: 0,
        field: field.to_owned(),
        message: message.into(),
        help: help.to_owned(),
    }
}

fn build(file: File) -> Result<BandwidthModel, ModelFileError> {
    const AGAIN: &str = "the file is damaged; fit the model again";
    let collective: Collective = file
        .collective
        .parse()
        .map_err(|e| fault("collective", format!("{e}"), "write for example all_reduce"))?;
    let p = file.physics;
    let constants = [
        p.rail_efficiency,
        p.ring_gain,
        p.two_host_cap,
        p.many_host_cap,
        p.latency_us,
        p.latency_per_rank_us,
        p.tree_half_bytes,
    ];
    if !constants.iter().all(|c| (1e-6..1e15).contains(c)) {
        return Err(fault("physics", "every constant must be between 1e-6 and 1e15", AGAIN));
    }
    let b = file.error_bands;
    let bands = ErrorBands {
        source: b.source,
        one_host: b.one_host,
        inside_mesh: b.inside_mesh,
        two_hosts_even: b.two_hosts_even,
        two_hosts_uneven: b.two_hosts_uneven,
        many_hosts_even: b.many_hosts_even,
        many_hosts_uneven: b.many_hosts_uneven,
        measured: b.measured,
    };
    if !bands.values().iter().all(|band| band.is_finite() && *band >= 0.0) {
        return Err(fault("error_bands", "every band must be finite and not negative", AGAIN));
    }
    let local = file.local.into_iter().enumerate().map(|(i, entry)| {
        read_local(entry).ok_or_else(|| fault(&format!("local[{i}]"), "not a valid entry", AGAIN))
    });
    let cross = file.cross.into_iter().enumerate().map(|(i, entry)| {
        read_cross(entry).ok_or_else(|| fault(&format!("cross[{i}]"), "not a valid entry", AGAIN))
    });
    Ok(BandwidthModel {
        description: file.description,
        collective,
        physics: CrossPhysics {
            rail_efficiency: p.rail_efficiency,
            ring_gain: p.ring_gain,
            two_host_cap: p.two_host_cap,
            many_host_cap: p.many_host_cap,
            latency_us: p.latency_us,
            latency_per_rank_us: p.latency_per_rank_us,
            tree_half_bytes: p.tree_half_bytes,
        },
        residual: read_correction(&file.correction)
            .ok_or_else(|| fault("correction", "not a valid correction", AGAIN))?,
        local: local.collect::<Result<_, _>>()?,
        cross: cross.collect::<Result<_, _>>()?,
        bands,
    })
}

fn busbw(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0 && value < 1e6).then_some(value)
}

fn read_local(entry: Local) -> Option<LocalEntry> {
    Some(LocalEntry {
        gpus: GpuMask::parse(&entry.gpus).ok()?,
        busbw_gbytes_per_s: busbw(entry.busbw_gbytes_per_s)?,
        host: entry.host,
        host_type: entry.host_type,
        bytes: entry.bytes,
        readings: entry.readings,
    })
}

fn read_cross(entry: Cross) -> Option<CrossEntry> {
    let shares: Option<Vec<CrossShare>> = entry
        .shares
        .into_iter()
        .map(|share| {
            let gpus = match share.gpus {
                Some(text) => Some(GpuMask::parse(&text).ok()?),
                None => None,
            };
            let fits = gpus.is_none_or(|mask| mask.count() == share.count as usize);
            ((1..=64).contains(&share.count) && fits).then_some(CrossShare {
                host_type: share.host_type,
                count: share.count,
                gpus,
            })
        })
        .collect();
    let shares = shares.filter(|shares| shares.len() > 1)?;
    Some(CrossEntry {
        shares,
        bytes: entry.bytes,
        busbw_gbytes_per_s: busbw(entry.busbw_gbytes_per_s)?,
        readings: entry.readings,
    })
}

fn read_correction(correction: &Correction) -> Option<Residual> {
    let sound = correction.log_kernel.iter().all(|v| v.is_finite())
        && correction.points.iter().all(|p| {
            p.weight.abs() < 1e12 && p.hosts >= 2 && p.levels > 0 && p.rails > 0 && p.bytes > 0
        });
    sound.then(|| Residual {
        hyperparameters: Hyperparameters(correction.log_kernel),
        points: correction
            .points
            .iter()
            .map(|p| Features { hosts: p.hosts, rails: p.rails, levels: p.levels, bytes: p.bytes })
            .collect(),
        weights: correction.points.iter().map(|p| p.weight).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> BandwidthModel {
        BandwidthModel {
            residual: Residual {
                hyperparameters: Hyperparameters::default(),
                points: vec![Features { hosts: 3, rails: 2, levels: 0b1010, bytes: 1 << 24 }],
                weights: vec![0.1 + 0.2],
            },
            local: vec![LocalEntry {
                host: "h1".to_owned(),
                host_type: "t".to_owned(),
                gpus: GpuMask(0b101),
                bytes: None,
                busbw_gbytes_per_s: 12.3,
                readings: 2,
            }],
            cross: vec![CrossEntry {
                shares: vec![
                    CrossShare { host_type: "t".to_owned(), count: 2, gpus: Some(GpuMask(3)) },
                    CrossShare { host_type: "u".to_owned(), count: 1, gpus: None },
                ],
                bytes: 2 << 30,
                busbw_gbytes_per_s: 1.0 / 3.0,
                readings: 1,
            }],
            ..BandwidthModel::closed_form()
        }
    }

    #[test]
    fn reads_back_to_the_bit() {
        assert_eq!(read(&write(&model())), Ok(model()));
    }

    #[test]
    fn refuses_what_is_wrong() {
        let text = write(&model());
        for (from, to, field) in [
            ("bandpilot-model", "other", "format"),
            ("\"version\": 2", "\"version\": 3", "version"),
            ("\"version\": 2", "\"version\": 1", "version"),
            ("all_reduce", "all", "collective"),
            ("12.3", "-12.3", "local[0]"),
            ("\"count\": 2", "\"count\": 3", "cross[0]"),
            ("\"levels\": 10", "\"levels\": 0", "correction"),
            ("\"latency_us\": 70.0", "\"latency_us\": 0.0", "physics"),
            ("\"measured\": 0.02", "\"measured\": -1", "error_bands"),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(read(&text.replacen(from, to, 1)).unwrap_err().field, field);
        }
        let unknown = text.replacen("\"physics\"", "\"physic\"", 1);
        assert!(read(&unknown).unwrap_err().line > 1);
    }

    #[test]
    fn no_cut_or_mutation_panics() {
        let text = write(&model());
        for end in 0..text.len() {
            let _ = read(&text[..end]);
        }
        for at in 0..text.len() {
            for digit in ["9", "-", "e", "}"] {
                let mut changed = text.clone();
                changed.replace_range(at..=at, digit);
                let _ = read(&changed);
            }
        }
    }
}
