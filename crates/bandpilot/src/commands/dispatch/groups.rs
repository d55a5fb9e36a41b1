//! `--parallel tp=8,pp=2,dp=4` and `--traffic tp=64x128MiB,dp=1x2GiB`.

use bandpilot_core::parse_bytes;
use bandpilot_dispatch::Parallel;
use bandpilot_model::Traffic;
use bandpilot_readers::Diagnostic;

use crate::cli::Dispatch;
use crate::exit::{Code, Failure};

/// The kinds of groups, in the order in which ranks are counted.
const KEYS: [&str; 3] = ["tp", "pp", "dp"];

/// What is exchanged in a step if nothing is said: tensor groups of a large language model twice a layer and
/// direction, pipelines once a micro-batch, gradients once.
const DEFAULT_TRAFFIC: [Traffic; 3] = [
    Traffic { messages: 64.0, bytes: 128 << 20 },
    Traffic { messages: 16.0, bytes: 64 << 20 },
    Traffic { messages: 1.0, bytes: 2 << 30 },
];

/// Most messages a step, and most ranks of a group.
const MOST: u64 = 1_000_000_000;

/// Reads the groups, if the job has any.
///
/// # Errors
/// If a part is wrong: it is pointed at.
pub fn read(args: &Dispatch) -> Result<Option<Parallel>, Failure> {
    let Some(text) = &args.parallel else {
        // clap asks for no option that another one excludes, such as --gpus.
        if args.traffic.is_some() {
            let message = "it says what the groups of --parallel exchange";
            return Err(Failure::usage("--traffic", message, "add --parallel, or leave it out"));
        }
        return Ok(None);
    };
    let [tensor, pipeline, data] =
        parts(text, "--parallel", "tp=8,pp=2,dp=4", size)?.map(|size| size.unwrap_or(1));
    let all = tensor.checked_mul(pipeline).and_then(|ranks| ranks.checked_mul(data));
    if all.is_none_or(|all| all as u64 > MOST) {
        let message = format!("{tensor} x {pipeline} x {data} ranks are more than any cluster has");
        return Err(Failure::usage("--parallel", message, "ask for fewer"));
    }
    let traffic = match &args.traffic {
        Some(text) => parts(text, "--traffic", "tp=64x128MiB,pp=16x64MiB,dp=1x2GiB", traffic)?,
        None => [None; 3],
    };
    let of = |at: usize| match traffic[at] {
        // No messages, but a size: bandwidths are told for some size all the same.
        Some(given) if given.messages == 0.0 => Traffic { messages: 0.0, ..DEFAULT_TRAFFIC[at] },
        Some(given) => given,
        None => DEFAULT_TRAFFIC[at],
    };
    Ok(Some(Parallel {
        tensor,
        pipeline,
        data,
        tensor_traffic: of(0),
        pipeline_traffic: of(1),
        data_traffic: of(2),
    }))
}

/// The values of the three keys, in the order of [`KEYS`]; `value` reads one.
fn parts<T>(
    text: &str,
    argument: &str,
    example: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<[Option<T>; 3], Failure> {
    let mut read: [Option<T>; 3] = [None, None, None];
    let mut column = 1;
    for part in text.split(',') {
        let wrong = |message: String| {
            let blanks = part.chars().take_while(|c| c.is_whitespace()).count() as u32;
            let reason = Diagnostic::error(part.trim(), message).at(1, column + blanks);
            Failure::new(Code::Usage, argument, reason.help(format!("write for example {example}")))
        };
        let (key, given) = part
            .split_once('=')
            .ok_or_else(|| wrong("it is not of the form KEY=VALUE".to_owned()))?;
        let key = key.trim();
        let at = KEYS.iter().position(|known| *known == key).ok_or_else(|| {
            wrong(format!("'{key}' is not a kind of group; known are tp, pp, dp"))
        })?;
        if read[at].is_some() {
            return Err(wrong(format!("'{key}' stands twice")));
        }
        read[at] = Some(value(given.trim()).map_err(wrong)?);
        column += part.chars().count() as u32 + 1;
    }
    Ok(read)
}

fn size(text: &str) -> Result<usize, String> {
    match whole(text) {
        Some(0) => Err("a group has at least 1 rank".to_owned()),
        Some(size) if size <= MOST => Ok(size as usize),
        Some(_) => Err("it is more than any cluster has".to_owned()),
        None => Err(format!("'{text}' is not a whole number")),
    }
}

fn traffic(text: &str) -> Result<Traffic, String> {
    if text == "0" {
        return Ok(Traffic { messages: 0.0, bytes: 1 });
    }
    let (messages, bytes) = text
        .split_once(['x', 'X'])
        .ok_or_else(|| format!("'{text}' is not of the form MESSAGESxSIZE, nor 0"))?;
    let messages = messages.trim();
    let count = whole(messages)
        .filter(|count| *count <= MOST)
        .ok_or_else(|| format!("'{messages}' is not a number of messages (0 to {MOST})"))?;
    let bytes = parse_bytes(bytes).map_err(|error| error.to_string())?;
    Ok(Traffic { messages: count as f64, bytes })
}

/// A number of digits only; one too long to hold is as large as can be.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<[Option<usize>; 3], Failure> {
        parts(text, "--parallel", "tp=8", size)
    }

    #[test]
    fn keys_come_in_any_order_and_may_be_left_out() {
        assert_eq!(sizes("dp=4, tp = 8").unwrap(), [Some(8), None, Some(4)]);
        assert_eq!(sizes("tp=2,pp=3,dp=5").unwrap(), [Some(2), Some(3), Some(5)]);
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        for (text, column, part) in [
            ("", 1, ""),
            ("tp=8,", 6, ""),
            ("tp=8,pp=0", 6, "pp=0"),
            ("tp=8, cp=2", 7, "cp=2"),
            ("tp=8,tp=8", 6, "tp=8"),
            ("tp=-1", 1, "tp=-1"),
            ("tp=1.5", 1, "tp=1.5"),
            ("tp", 1, "tp"),
            ("tp=99999999999999999999999", 1, "tp=99999999999999999999999"),
        ] {
            let failure = sizes(text).unwrap_err();
            let (file, reason) = &failure.reasons[0];
            assert_eq!((file.as_str(), failure.code), ("--parallel", Code::Usage));
            assert_eq!((reason.column, reason.field.as_str()), (column, part), "{text}");
        }
    }

    #[test]
    fn traffic_is_messages_times_size() {
        assert_eq!(traffic("64x128MiB"), Ok(Traffic { messages: 64.0, bytes: 128 << 20 }));
        assert_eq!(traffic("0").unwrap().messages, 0.0);
        for text in ["", "64", "x1GiB", "64x", "64x0", "-1x1GiB", "1.5x1GiB", "1e3x1GiB", "4xx1GiB"]
        {
            assert!(traffic(text).is_err(), "{text}");
        }
    }
}
