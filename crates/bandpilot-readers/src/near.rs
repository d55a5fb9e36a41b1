//! "Did you mean": the known names that look most like a wrong one.

/// Longest names that are compared; longer ones are never offered.
const MAX_LENGTH: usize = 64;

/// Up to `limit` known names within a small edit distance of `wrong`, nearest first.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    if wrong.len() > MAX_LENGTH {
        return Vec::new();
    }
    let allowed = (wrong.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter(|name| name.len() <= MAX_LENGTH && name.len().abs_diff(wrong.len()) <= 4 * allowed)
        .map(|name| (distance(wrong, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    // Stable: names equally near keep the order of the cluster.
    found.sort_by_key(|(distance, _)| *distance);
    found.truncate(limit);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Edit distance in characters, without regard to case; swapped neighbours count as one edit.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let cell = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differ = a.get(i - 1) != b.get(j - 1);
            let mut least = cell(&above, j - 1) + usize::from(differ);
            least = least.min(cell(&above, j) + 1).min(cell(&row, j - 1) + 1);
            if i > 1 && j > 1 && a.get(i - 1) == b.get(j - 2) && a.get(i - 2) == b.get(j - 1) {
                least = least.min(cell(&before, j - 2) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    cell(&above, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [
            ("", "", 0),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("Ab", "aB", 0),
            ("laef", "leaf", 1),
        ] {
            assert_eq!(distance(a, b), d, "{a} {b}");
            assert_eq!(distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn offers_only_what_is_near() {
        assert_eq!(nearest("h11", ["h1", "h12", "login"], 3), ["h1", "h12"]);
        assert!(nearest("x", ["login"], 3).is_empty());
        assert_eq!(nearest("nam", ["name", "names"], 1), ["name"]);
    }
}
