//! Lists of seeds.

use std::str::FromStr;

use clap::Args;

/// Most seeds of one call.
const MAX_SEEDS: u64 = 1_000;

/// One seed, or several.
#[derive(Debug, Args)]
pub struct OneOrMoreSeeds {
    /// Seed of random placement, faults and the mix
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Run each policy with several seeds: so many from 1 on, or a list such as 3,7 or 10-20
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    pub seeds: Option<Seeds>,
}

impl OneOrMoreSeeds {
    /// All of them.
    pub fn all(&self) -> Vec<u64> {
        self.seeds.as_ref().map_or(vec![self.seed], |seeds| seeds.0.clone())
    }
}

/// Seeds, each once, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    /// Reads `5` (1 to 5), `3,7` or `10-20,30`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            let wrong = || format!("'{part}' is not a number of seeds, a list or a range");
            part.trim().parse::<u64>().map_err(|_| wrong())
        };
        if !text.contains([',', '-']) {
            return match number(text)? {
                count @ 1..=MAX_SEEDS => Ok(Self((1..=count).collect())),
                _ => Err(format!("there can be 1 to {MAX_SEEDS} seeds")),
            };
        }
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("'{part}' ends before it begins"));
            }
            if last - first >= MAX_SEEDS - seeds.len() as u64 {
                return Err(format!("there can be 1 to {MAX_SEEDS} seeds"));
            }
            for seed in first..=last {
                if seeds.contains(&seed) {
                    return Err(format!("seed {seed} stands twice"));
                }
                seeds.push(seed);
            }
        }
        Ok(Self(seeds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        for (text, expected) in [
            ("1", &[1][..]),
            ("3", &[1, 2, 3]),
            ("7,3", &[7, 3]),
            ("10-12, 4", &[10, 11, 12, 4]),
            ("5-5", &[5]),
            ("18446744073709551614-18446744073709551615", &[u64::MAX - 1, u64::MAX]),
        ] {
            assert_eq!(text.parse(), Ok(Seeds(expected.to_vec())), "{text}");
        }
        for text in
            ["", "0", "1001", "x", "3,", "-1", "5-3", "1-3,2", "0-18446744073709551615", "1.5"]
        {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
