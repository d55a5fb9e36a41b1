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
}
