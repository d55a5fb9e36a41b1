//! The JSON that benchmarks write instead of, or beside, their text.
//!
//! | written by | form |
//! |---|---|
//! | nccl-tests 2.17 and later, `-J FILE` | one object with `args`, `config.devices` and `results` |
//! | pull request 318 of nccl-tests | one object with `benchmark`: rows keyed by their size |
//! | rccl-tests `-x FILE -Z json` | one object a row and place, as lines or as an array |
//! | rccl-tests `-x FILE -Z csv` | no JSON, but the same rows and values |

use bandpilot_core::counted;
use serde_json::{Deserializer, Map, Value};

use super::bus_id::BusId;
use super::devices::{DeviceList, Rank};
use super::rows::{Printed, RowOutcome, Values, judge, none_wrong, root};
use super::scan::{Scanned, Stated, Table, test_name};
use crate::Diagnostic;

/// Most GPUs of one process that a device list may leave out.
const MAX_PER_PROCESS: u64 = 64;

/// What every digit beyond these is worth: the programs print six decimals.
const UNIT: f64 = 1e-6;

/// Reads the first JSON document of a text, or the CSV of rccl-tests, which has the same rows; `None` if
/// there is none with bandwidths.
pub(super) fn scan(text: &str) -> Option<Scanned> {
    if let Some(scanned) = comma_separated(text) {
        return Some(scanned);
    }
    let (line, start) = first_document(text)?;
    let rest = text.get(start..)?;
    if let Some(scanned) = objects_by_line(text) {
        return Some(scanned);
    }
    if !["\"bus_bw\"", "\"oop_busbw\"", "\"busBw\""].iter().any(|key| rest.contains(key)) {
        return None;
    }
    let mut scanned = Scanned::default();
    let first = Deserializer::from_str(rest).into_iter::<Value>().next();
    let document = match first {
        Some(Ok(document)) => document,
        Some(Err(error)) if error.is_eof() => {
            let message = "the JSON document is cut off";
            let reason = Diagnostic::error("", message).at(line, 0);
            scanned.remarks.push(reason.help("what is whole of it is read; run the test again"));
            mended(rest)?
        }
        Some(Err(error)) => {
            // A newline inside a text counts as the line after it, even where there is none.
            let last = text.lines().count() as u32;
            let at = line.saturating_add(error.line() as u32).saturating_sub(1).min(last);
            let reason = Diagnostic::error("", "the JSON document cannot be read");
            scanned.remarks.push(reason.at(at, error.column() as u32));
            return Some(scanned);
        }
        None => return None,
    };
    let Reader { table, remarks } = match &document {
        Value::Object(object) if object.contains_key("results") => nccl_tests(line, object),
        Value::Object(object) if object.contains_key("benchmark") => by_size(line, object),
        Value::Array(rows) => {
            let mut reader = ByPlace::default();
            for row in rows {
                reader.row(line, row);
            }
            return Some(reader.finish(scanned));
        }
        _ => Reader::default(),
    };
    scanned.remarks.extend(remarks);
    if table.line > 0 {
        scanned.tables.push(table);
    }
    Some(scanned)
}

/// Line and byte where the first line begins that a JSON document may begin with.
fn first_document(text: &str) -> Option<(u32, usize)> {
    let mut start = 0;
    for (line, raw) in (1_u32..).zip(text.split_inclusive('\n')) {
        let bare = raw.trim();
        if bare.starts_with('{') || bare == "[" || bare.starts_with("[{") {
            return Some((line, start));
        }
        start += raw.len();
    }
    None
}

/// The document up to the last object that is whole, with what is open closed.
fn mended(text: &str) -> Option<Value> {
    let (mut open, mut in_text, mut escaped) = (Vec::new(), false, false);
    let mut whole: Option<(usize, Vec<u8>)> = None;
    for (at, byte) in text.bytes().enumerate() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                open.pop();
                whole = Some((at + 1, open.clone()));
            }
            _ => {}
        }
    }
    let (end, open) = whole?;
    let closing: String = open.iter().rev().map(|byte| char::from(*byte)).collect();
    serde_json::from_str(&format!("{}{closing}", text.get(..end)?)).ok()
}

/// A table in the making.
#[derive(Default)]
struct Reader {
    table: Table,
    remarks: Vec<Diagnostic>,
}

type Object = Map<String, Value>;

/// The document of `-J`.
fn nccl_tests(line: u32, document: &Object) -> Reader {
    let mut reader = Reader::default();
    reader.table.line = line;
    let args = document.get("args").and_then(Value::as_array);
    let name = args.into_iter().flatten().filter_map(Value::as_str).find_map(test_name);
    reader.table.stated = name.map(|name| Stated { line, name, by_command: false });
    if let Some(config) = document.get("config").and_then(Value::as_object) {
        reader.table.devices = device_list(line, config, &mut reader.remarks);
    }
    for (at, result) in
        (0..).zip(document.get("results").and_then(Value::as_array).into_iter().flatten())
    {
        reader.table.cpu_time |= result.pointer("/out_of_place/cpu_time").is_some();
        reader.table.rows.push(outcome(line, &format!("results[{at}]"), result_values(result)));
    }
    if document.get("out_of_bounds").and_then(|bounds| bounds.get("okay"))
        == Some(&Value::from("false"))
    {
        let message = "the test itself reports wrong results";
        reader.remarks.push(Diagnostic::warning("out_of_bounds", message).at(line, 0));
    }
    let errors = document.get("errors").and_then(Value::as_array);
    if errors.into_iter().flatten().any(|error| error.as_str().is_some_and(|text| !text.is_empty()))
    {
        reader.remarks.push(Diagnostic::warning("errors", "NCCL reports errors").at(line, 0));
    }
    reader
}

/// The list of devices, which names only the first GPU of each process.
fn device_list(line: u32, config: &Object, remarks: &mut Vec<Diagnostic>) -> DeviceList {
    let count = |key: &str| config.get(key).and_then(Value::as_u64).unwrap_or(1);
    let per_process = count("nthreads").saturating_mul(count("ngpus")).max(1);
    let mut list = DeviceList::default();
    let devices = config.get("devices").and_then(Value::as_array);
    if per_process > MAX_PER_PROCESS {
        list.incomplete = true;
        return list;
    }
    for device in devices.into_iter().flatten() {
        match json_rank(line, device) {
            // Those that follow are the next ones, on the same host.
            Some(first) => list.ranks.extend((0..per_process).map(|after| Rank {
                number: first.number.saturating_add(after),
                device: first.device.saturating_add(after),
                bus: first.bus.filter(|_| after == 0),
                ..first.clone()
            })),
            None => list.incomplete = true,
        }
    }
    if per_process > 1 && !list.ranks.is_empty() {
        let message = format!(
            "the device list has the first of {per_process} GPUs of each process; the others are those that follow it"
        );
        remarks.push(Diagnostic::note("placement", message).at(line, 0));
    }
    list
}

fn json_rank(line: u32, device: &Value) -> Option<Rank> {
    let number = |key: &str| device.get(key).and_then(Value::as_u64);
    Some(Rank {
        line,
        number: number("rank")?,
        group: number("group").unwrap_or(0),
        host: device.get("hostname")?.as_str()?.to_owned(),
        device: number("device")?,
        bus: device.get("device_hex").and_then(Value::as_str).and_then(BusId::parse),
    })
}

fn result_values(result: &Value) -> Result<Option<Values<'_>>, Diagnostic> {
    let bytes = whole(result, "size")?;
    if bytes == 0 {
        return Ok(None);
    }
    let place = result
        .get("out_of_place")
        .filter(|place| place.is_object())
        .ok_or_else(|| Diagnostic::error("out_of_place", "there is no out-of-place result"))?;
    for place in [Some(place), result.get("in_place")].into_iter().flatten() {
        none_wrong(&verdict(place.get("nwrong")))?;
    }
    Ok(Some(Values {
        bytes,
        count: Some(whole(result, "count")?),
        kind: text(result, "type"),
        redop: text(result, "redop"),
        root: text(result, "root").map(root).transpose()?,
        time: if place.get("cpu_time").is_some() { None } else { Some(number(place, "time")?) },
        algbw: number(place, "alg_bw")?,
        busbw: number(place, "bus_bw")?,
        deviation: None,
    }))
}

/// The document of pull request 318.
fn by_size(line: u32, document: &Object) -> Reader {
    let mut reader = Reader::default();
    reader.table.line = line;
    let groups = document.get("benchmark").and_then(Value::as_array);
    let mut rows: Vec<(&String, &Value)> =
        groups.into_iter().flatten().filter_map(Value::as_object).flatten().collect();
    rows.sort_by_key(|(size, _)| (size.len(), *size));
    for (size, row) in rows {
        let read = sized_values(size, row);
        reader.table.rows.push(outcome(line, &format!("benchmark.{size}"), read));
    }
    reader
}

fn sized_values<'a>(size: &str, row: &'a Value) -> Result<Option<Values<'a>>, Diagnostic> {
    let bytes = super::rows::whole("size", size)?;
    if bytes == 0 {
        return Ok(None);
    }
    let mut deviation: Option<f64> = None;
    for key in ["oop_error", "ip_error"] {
        if row.get(key).is_some_and(Value::is_number) {
            let found = number(row, key)?.value;
            deviation = Some(deviation.map_or(found, |before| before.max(found)));
        }
    }
    Ok(Some(Values {
        bytes,
        count: Some(whole(row, "count")?),
        kind: text(row, "type"),
        redop: text(row, "redop"),
        root: text(row, "root").map(root).transpose()?,
        time: Some(number(row, "oop_time")?),
        algbw: number(row, "oop_algbw")?,
        busbw: number(row, "oop_busbw")?,
        deviation,
    }))
}

/// The objects of rccl-tests if each has a line of its own; `None` if there are none.
fn objects_by_line(text: &str) -> Option<Scanned> {
    let mut reader = ByPlace::default();
    let is_object = |line: &str| line.starts_with('{') && line.contains("\"busBw\"");
    if !text.lines().any(|line| is_object(line.trim())) {
        return None;
    }
    for (line, raw) in (1_u32..).zip(text.lines()) {
        let bare = raw.trim().trim_end_matches(',');
        if !bare.starts_with('{') {
            continue;
        }
        if let Ok(row) = serde_json::from_str::<Value>(bare) {
            reader.row(line, &row);
        } else {
            let reason = Diagnostic::error("", "the JSON object cannot be read").at(line, 0);
            reader.refuse(line, reason.help("it is cut off or torn"));
        }
    }
    Some(reader.finish(Scanned::default()))
}

/// The rows of rccl-tests with `-Z csv`; `None` if there is no header of them.
fn comma_separated(text: &str) -> Option<Scanned> {
    let mut lines = (1_u32..).zip(text.lines());
    let header = lines.by_ref().map(|(_, line)| line.trim()).find(|line| {
        line.split(',').any(|name| name == "collective") && line.contains(",busbw,")
    })?;
    let key = |name: &str| match name {
        "collective" => "name".to_owned(),
        "inplace" => "inPlace".to_owned(),
        "algbw" => "algBw".to_owned(),
        "busbw" => "busBw".to_owned(),
        _ => name.to_owned(),
    };
    let keys: Vec<String> = header.split(',').map(key).collect();
    let mut reader = ByPlace::default();
    for (line, raw) in lines.filter(|(_, raw)| !raw.trim().is_empty()) {
        let cells: Vec<&str> = raw.trim().split(',').collect();
        if cells.len() != keys.len() {
            let message = format!("the row has {} of {} cells", cells.len(), keys.len());
            let reason = Diagnostic::error("", message).at(line, 0);
            reader.refuse(line, reason.help("it is cut off or torn"));
            continue;
        }
        // Numbers and quoted texts are written as in JSON.
        let value = |cell: &&str| {
            serde_json::from_str(cell).unwrap_or_else(|_| Value::String((*cell).to_owned()))
        };
        let row: Object = keys.iter().cloned().zip(cells.iter().map(value)).collect();
        reader.row(line, &Value::Object(row));
    }
    Some(reader.finish(Scanned::default()))
}

/// Objects of rccl-tests, of which those out of place are rows; a new table begins with each collective
/// and number of GPUs.
#[derive(Default)]
struct ByPlace {
    tables: Vec<Table>,
    in_place: Vec<u32>,
}

impl ByPlace {
    fn row(&mut self, line: u32, row: &Value) {
        if row.get("inPlace").and_then(Value::as_u64) == Some(1) {
            if let Err(reason) = none_wrong(&wrong_of(row)) {
                self.refuse(line, reason.at(line, 0));
            } else {
                self.in_place.push(line);
            }
            return;
        }
        let name = text(row, "name").unwrap_or("").to_owned();
        let gpus = gpu_count(row);
        let last = self.tables.last().map(|table| {
            (
                table.stated.as_ref().map(|stated| stated.name.clone()),
                table.gpus.map(|(_, gpus)| gpus),
            )
        });
        if last != Some((Some(name.clone()), gpus)) {
            self.tables.push(Table {
                stated: Some(Stated { line, name, by_command: false }),
                gpus: gpus.map(|gpus| (line, gpus)),
                line,
                ..Table::default()
            });
        }
        if let Some(table) = self.tables.last_mut() {
            table.rows.push(outcome(line, "", placed_values(row)));
        }
    }

    fn refuse(&mut self, line: u32, reason: Diagnostic) {
        if self.tables.is_empty() {
            self.tables.push(Table { line, ..Table::default() });
        }
        if let Some(table) = self.tables.last_mut() {
            table.rows.push(RowOutcome::Refused(reason));
        }
    }

    fn finish(self, mut scanned: Scanned) -> Scanned {
        scanned.tables.extend(self.tables);
        if let Some(first) = self.in_place.first() {
            let message =
                format!("left out: {} of in-place runs", counted(self.in_place.len(), "row"));
            scanned.remarks.push(Diagnostic::note("inPlace", message).at(*first, 0));
        }
        scanned
    }
}

/// `gpus` of one process, or ranks x GPUs of a rank under MPI.
fn gpu_count(row: &Value) -> Option<usize> {
    let count = |key: &str| row.get(key).and_then(Value::as_u64);
    let under_mpi = || count("ranks")?.checked_mul(count("gpusPerRank").unwrap_or(1));
    let gpus = count("gpus").or_else(under_mpi)?;
    usize::try_from(gpus).ok().filter(|gpus| *gpus > 0)
}

fn wrong_of(row: &Value) -> String {
    verdict(row.get("#wrong").or_else(|| row.get("wrong")))
}

fn placed_values(row: &Value) -> Result<Option<Values<'_>>, Diagnostic> {
    let bytes = whole(row, "size")?;
    if bytes == 0 {
        return Ok(None);
    }
    if row.get("inPlace").and_then(Value::as_u64) != Some(0) {
        return Err(Diagnostic::error("inPlace", "the row says not which run it is of"));
    }
    none_wrong(&wrong_of(row))?;
    Ok(Some(Values {
        bytes,
        count: None,
        kind: text(row, "type"),
        redop: text(row, "redop"),
        root: None,
        time: Some(number(row, "time")?),
        algbw: number(row, "algBw")?,
        busbw: number(row, "busBw")?,
        deviation: None,
    }))
}

/// One row's outcome; `path` leads to it in the document.
fn outcome(line: u32, path: &str, read: Result<Option<Values<'_>>, Diagnostic>) -> RowOutcome {
    let judged = read.and_then(|values| values.map(|values| judge(line, &values)).transpose());
    match judged {
        Ok(Some(row)) => RowOutcome::Row(Box::new(row)),
        Ok(None) => RowOutcome::SizeZero(line),
        Err(reason) if path.is_empty() => RowOutcome::Refused(reason.at(line, 0)),
        Err(mut reason) => {
            reason.field = format!("{path}.{}", reason.field);
            RowOutcome::Refused(reason.at(line, 0))
        }
    }
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn whole(object: &Value, key: &str) -> Result<u64, Diagnostic> {
    object.get(key).and_then(Value::as_u64).ok_or_else(|| unreadable(object, key, "whole number"))
}

fn number(object: &Value, key: &str) -> Result<Printed, Diagnostic> {
    match object.get(key).and_then(Value::as_f64).filter(|value| *value >= 0.0) {
        Some(value) => Ok(Printed { value, unit: UNIT + UNIT * value }),
        None => Err(unreadable(object, key, "number")),
    }
}

fn unreadable(object: &Value, key: &str, want: &str) -> Diagnostic {
    let message = if object.get(key).is_some() { "is not a" } else { "is missing; it is a" };
    Diagnostic::error(key, format!("{message} {want}"))
}

/// The number of wrong elements as the text has it.
fn verdict(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "N/A".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(number) if number.as_f64() == Some(0.0) => "0".to_owned(),
        Some(other) => other.to_string().chars().take(40).collect(),
    }
}
