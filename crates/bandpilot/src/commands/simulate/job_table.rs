//! One row a job, policy and seed: as CSV and as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use bandpilot_readers::trace_file::TraceJob;
use bandpilot_sim::{JobId, JobResult};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::judge::Judged;
use super::runs::{Run, Scene, Stage};

/// What a row is made of.
struct Row<'a> {
    policy: &'a str,
    seed: u64,
    tenant: &'a str,
    job: &'a TraceJob,
    /// A share counts as a part of one.
    gpus: f64,
    result: &'a JobResult,
}

fn jct_s(row: &Row<'_>) -> Option<f64> {
    row.result.finish_s.map(|finish_s| finish_s - row.job.submit_s)
}

/// Where the values of a column come from; `None` is an empty cell.
enum Of {
    Text(for<'a> fn(&Row<'a>) -> &'a str),
    Integer(fn(&Row<'_>) -> u64),
    Number(fn(&Row<'_>) -> Option<f64>),
}

/// The columns. A new one gets a row here, and both formats have it.
const COLUMNS: [(&str, Of); 22] = [
    ("policy", Of::Text(|row| row.policy)),
    ("seed", Of::Integer(|row| row.seed)),
    ("job_id", Of::Text(|row| &row.job.name)),
    ("tenant", Of::Text(|row| row.tenant)),
    ("line", Of::Integer(|row| u64::from(row.job.line))),
    ("submit_s", Of::Number(|row| Some(row.job.submit_s))),
    ("first_start_s", Of::Number(|row| row.result.first_start_s)),
    ("finish_s", Of::Number(|row| row.result.finish_s)),
    ("duration_s", Of::Number(|row| Some(row.job.duration_s))),
    ("jct_s", Of::Number(jct_s)),
    ("wait_s", Of::Number(|row| Some(jct_s(row)? - row.job.duration_s))),
    ("slowdown", Of::Number(|row| Some(jct_s(row)? / row.job.duration_s))),
    ("held_s", Of::Number(|row| Some(row.result.held_s))),
    ("worked_s", Of::Number(|row| Some(row.result.worked_s))),
    ("contention_s", Of::Number(|row| Some(row.result.contention_s))),
    ("gpus", Of::Number(|row| Some(row.gpus))),
    ("hosts", Of::Integer(|row| u64::from(row.result.hosts))),
    ("gpu_seconds", Of::Number(|row| Some(row.result.held_s * row.gpus))),
    ("busbw_gbytes_per_s", Of::Number(|row| row.result.busbw_gbytes_per_s)),
    ("preemptions", Of::Integer(|row| u64::from(row.result.preemptions))),
    ("migrations", Of::Integer(|row| u64::from(row.result.migrations))),
    ("faults", Of::Integer(|row| u64::from(row.result.faults))),
];

/// The rows of one run, in order of submission.
fn rows<'a>(
    scene: &'a Scene,
    policy: &'a str,
    run: &'a Run,
) -> impl Iterator<Item = Row<'a>> + Clone {
    (0..).map(JobId).zip(&run.jobs).filter_map(move |(id, result)| {
        let job = scene.trace.jobs.get(scene.workload.of_trace(id))?;
        let (tenant, gpus) = (scene.trace.word(job.tenant), scene.workload.shape(id).size_gpus());
        Some(Row { policy, seed: run.seed, tenant, job, gpus, result })
    })
}

/// All runs, with what they were played on.
fn runs<'a>(
    stage: &'a Stage,
    judged: &'a [Judged],
) -> impl Iterator<Item = (String, &'a Run, &'a Scene)> {
    judged.iter().flat_map(move |row| {
        let of = move |(at, run)| (row.policy.to_string(), run, stage.scene(at));
        row.runs.iter().enumerate().map(of)
    })
}

/// A finite number; the quotient of a job that takes no time is none.
fn number(of: fn(&Row<'_>) -> Option<f64>, row: &Row<'_>) -> Option<f64> {
    of(row).filter(|value| value.is_finite())
}

/// Writes CSV. Numbers are written so that reading gives them back to the last bit.
///
/// # Errors
/// If writing fails.
pub fn csv(w: &mut dyn Write, stage: &Stage, judged: &[Judged]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(w);
    csv.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
    for (policy, run, scene) in runs(stage, judged) {
        for row in rows(scene, &policy, run) {
            for (_, of) in &COLUMNS {
                match of {
                    Of::Text(of) => csv.write_field(of(&row))?,
                    Of::Integer(of) => csv.write_field(of(&row).to_string())?,
                    Of::Number(of) => {
                        let text = number(*of, &row).map(|value| value.to_string());
                        csv.write_field(text.unwrap_or_default())?;
                    }
                }
            }
            csv.write_record(None::<&[u8]>)?;
        }
    }
    csv.flush()
}

fn schema() -> Result<TypePtr, parquet::errors::ParquetError> {
    let field = |(name, of): &(&str, Of)| {
        let (physical, logical, repetition) = match of {
            Of::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Of::Integer(_) => (
                Physical::INT64,
                // Seeds are of 64 bits.
                Some(LogicalType::integer(64, false)),
                Repetition::REQUIRED,
            ),
            Of::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        field.with_repetition(repetition).build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("jobs").with_fields(fields).build().map(Arc::new)
}

/// Writes Parquet: one group of rows for each run, compressed by Snappy.
///
/// # Errors
/// If writing fails.
pub fn parquet(w: &mut (dyn Write + Send), stage: &Stage, judged: &[Judged]) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("bandpilot {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut file = SerializedFileWriter::new(w, schema()?, Arc::new(properties))?;
    for (policy, run, scene) in runs(stage, judged) {
        if run.jobs.is_empty() {
            continue;
        }
        let mut group = file.next_row_group()?;
        for (_, of) in &COLUMNS {
            column(&mut group, of, rows(scene, &policy, run))?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn column<'a, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    of: &Of,
    rows: impl Iterator<Item = Row<'a>>,
) -> io::Result<()> {
    let Some(mut writer) = group.next_column()? else { return Ok(()) };
    match of {
        Of::Text(of) => {
            let values: Vec<ByteArray> = rows.map(|row| ByteArray::from(of(&row))).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Of::Integer(of) => {
            let values: Vec<i64> = rows.map(|row| of(&row).cast_signed()).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Of::Number(of) => {
            let cells: Vec<Option<f64>> = rows.map(|row| number(*of, &row)).collect();
            let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
            let values: Vec<f64> = cells.into_iter().flatten().collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    writer.close()?;
    Ok(())
}
