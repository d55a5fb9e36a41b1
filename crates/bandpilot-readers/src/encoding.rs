//! Texts that are not lines of UTF-8.

use std::borrow::Cow;

use crate::Diagnostic;

/// As many characters are looked at to tell the encoding.
const LOOKED_AT: usize = 4096;

/// The text with line ends that every reader knows; an error for UTF-16, which shows as a NUL beside each letter.
pub(crate) fn ready(text: &str) -> Result<Cow<'_, str>, Diagnostic> {
    let start = text.chars().take(LOOKED_AT);
    let (nul, all) = start.fold((0, 0), |(nul, all), c| (nul + usize::from(c == '\0'), all + 1));
    if nul * 3 > all {
        let help = "it may be from PowerShell; convert it with iconv -f UTF-16 -t UTF-8";
        return Err(Diagnostic::error("", "the text is UTF-16, not UTF-8").at(1, 0).help(help));
    }
    if text.contains('\n') || !text.contains('\r') {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(text.replace('\r', "\n")))
}

/// An error for bytes that are no text: many of them show as NUL, control characters or as the mark of what is not UTF-8.
pub(crate) fn is_text(text: &str) -> Result<(), Diagnostic> {
    let strange = |c: char| {
        c == char::REPLACEMENT_CHARACTER || c.is_control() && !matches!(c, '\n' | '\r' | '\t')
    };
    let start = text.chars().take(LOOKED_AT);
    let (wrong, all) =
        start.fold((0, 0), |(wrong, all), c| (wrong + usize::from(strange(c)), all + 1));
    if wrong * 10 <= all {
        return Ok(());
    }
    let what = match text {
        _ if text.starts_with("PK\u{3}\u{4}") => "a ZIP file or a workbook",
        _ if text.starts_with("PAR1") => "Parquet",
        _ => "binary",
    };
    let reason = Diagnostic::error("", format!("it is {what}, not a text"));
    Err(reason.help("a table of text is needed, plain or packed with gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_named_and_old_line_ends_are_read() {
        for bytes in [
            "\u{feff}size busbw\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
            "size busbw\n".encode_utf16().flat_map(u16::to_be_bytes).collect(),
        ] {
            let reason = ready(&String::from_utf8_lossy(&bytes)).unwrap_err();
            assert_eq!(reason.message, "the text is UTF-16, not UTF-8");
        }
        assert_eq!(ready("a\rb\r").unwrap(), "a\nb\n");
        for kept in ["", "a", "a\r\nb\r\n", "10 %\r20 %\rdone\n", "a\0b"] {
            assert_eq!(ready(kept).unwrap(), kept);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        for (bytes, what) in [
            (&b"PK\x03\x04\x14\0\x06\0\x08"[..], "a ZIP file or a workbook"),
            (b"PAR1\x15\x04\x15\x80\x02", "Parquet"),
            (b"\x7fELF\x02\x01\x01\0\0", "binary"),
        ] {
            let reason = is_text(&String::from_utf8_lossy(bytes)).unwrap_err();
            assert_eq!(reason.message, format!("it is {what}, not a text"));
        }
        // A name in an old encoding leaves a text a text.
        let old = String::from_utf8_lossy(b"job_id,gpus\nM\xfcller,1\n").into_owned();
        assert!([&old, "", "a\tb\r\n"].into_iter().all(|text| is_text(text).is_ok()));
    }
}
