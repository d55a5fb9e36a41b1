//! PCI bus ids as nccl-tests, nvidia-smi and cluster files write them.

use std::fmt;

/// As much of an id as was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BusId {
    domain: Option<u32>,
    bus: u32,
    device: Option<u32>,
}

impl BusId {
    /// Reads `[0x1b]`, `[0000:1b:00]`, `1b:00` or `00000000:1B:00.0`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let bare = bare.split_once('.').map_or(bare, |(before, _)| before);
        let hex = |part: &str| {
            let digits = part.bytes().all(|b| b.is_ascii_hexdigit());
            if digits { u32::from_str_radix(part, 16).ok() } else { None }
        };
        if let Some(bus) = bare.strip_prefix("0x") {
            return Some(Self { domain: None, bus: hex(bus)?, device: None });
        }
        let parts = bare.split(':').map(hex).collect::<Option<Vec<u32>>>()?;
        match parts.as_slice() {
            [bus, device] => Some(Self { domain: None, bus: *bus, device: Some(*device) }),
            [domain, bus, device] => {
                Some(Self { domain: Some(*domain), bus: *bus, device: Some(*device) })
            }
            _ => None,
        }
    }

    /// True if nothing that both write differs.
    pub(super) fn matches(&self, other: &Self) -> bool {
        let agree = |a: Option<u32>, b: Option<u32>| a.is_none() || b.is_none() || a == b;
        self.bus == other.bus
            && agree(self.domain, other.domain)
            && agree(self.device, other.device)
    }
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.domain, self.device) {
            (Some(domain), Some(device)) => write!(f, "{domain:04x}:{:02x}:{device:02x}", self.bus),
            (None, Some(device)) => write!(f, "{:02x}:{device:02x}", self.bus),
            _ => write!(f, "0x{:02x}", self.bus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_one_id_match() {
        let spellings = ["[0x1b]", "[0000:1b:00]", "1b:00", "0000:1B:00.0", "00000000:1B:00.0"];
        for a in spellings {
            for b in spellings {
                assert!(BusId::parse(a).unwrap().matches(&BusId::parse(b).unwrap()), "{a} {b}");
            }
            for other in ["[0x1c]", "0000:1c:00.0"] {
                assert!(!BusId::parse(a).unwrap().matches(&BusId::parse(other).unwrap()), "{a}");
            }
        }
        assert!(!BusId::parse("9:1:0").unwrap().matches(&BusId::parse("19:1:0").unwrap()));
        for text in ["", "[]", "NVIDIA", "1b", "1:2:3:4", "+1:00", "0x", "0xé", "fffffffff:1:1"] {
            assert_eq!(BusId::parse(text), None, "{text}");
        }
    }
}
