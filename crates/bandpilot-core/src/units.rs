//! Byte sizes as people type them, and counts as they read them.

/// A count with its noun: `1 row`, `2 rows`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Why a size such as `2GiB` was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a message size: {reason}; write for example 16MiB, 2GiB or 2147483648")]
pub struct ByteSizeError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

const UNITS: [(&str, u64); 12] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("b", 1),
    ("tib", 1 << 40),
    ("t", 1 << 40),
];

/// Reads `16MiB`, `2G`, `1500000`. A bare `K`, `M`, `G` is binary, as in nccl-tests; `KB`, `MB`, `GB` are decimal.
///
/// # Errors
/// If the text is no positive whole number of bytes below 2^50.
pub fn parse_bytes(text: &str) -> Result<u64, ByteSizeError> {
    let error = |reason| ByteSizeError { text: text.to_owned(), reason };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = if unit.is_empty() {
        1
    } else {
        UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| error("unknown unit"))?.1
    };
    let value: f64 = number.parse().map_err(|_| error("no number in front of the unit"))?;
    let bytes = value * factor as f64;
    if bytes < 1.0 {
        return Err(error("it must be at least one byte"));
    }
    if bytes >= (1_u64 << 50) as f64 {
        return Err(error("it must be below 1024 TiB"));
    }
    if bytes.fract() != 0.0 {
        return Err(error("it must be a whole number of bytes"));
    }
    Ok(bytes as u64)
}

/// Writes a size in the largest binary unit that divides it, `2GiB`, else in bytes.
pub fn format_bytes(bytes: u64) -> String {
    for (name, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{name}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes() {
        let cases = [
            ("2GiB", 2 << 30),
            ("16M", 16 << 20),
            ("16 mib", 16 << 20),
            ("1.5KiB", 1536),
            ("1GB", 1_000_000_000),
            ("8", 8),
            ("8b", 8),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "GiB", "-1", "0", "1.5", "2Gi", "1e3", "1..5M", "99999999999999G", "NaN"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_what_it_reads() {
        for bytes in [1, 1023, 1024, 1536, 16 << 20, 2 << 30, 5 << 40] {
            assert_eq!(parse_bytes(&format_bytes(bytes)).unwrap(), bytes);
        }
    }
}
