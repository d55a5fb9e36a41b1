//! Constraints of features: `gpu&(a|b)`, `[rack1|rack2]&ib`.
//!
//! Slurm goes from left to right: `a&b|c` is `(a&b)|c`, `a|b&c` is `(a|b)&c`. One of the items in brackets is to hold
//! for all hosts together, so each of them gives an alternative of its own.

use crate::submit::ask::Features;

/// Clauses or alternatives beyond this are a mistake, or an attack.
const MOST: usize = 256;
const DEEPEST: usize = 16;

/// Alternatives, any of which all hosts have to meet.
pub(super) fn read(text: &str) -> Result<Vec<Features>, String> {
    let mut reader = Reader { text, rest: text.trim(), depth: 0 };
    let all = reader.expression()?;
    if reader.rest.is_empty() {
        Ok(all.into_iter().map(Features).collect())
    } else {
        Err(reader.wrong())
    }
}

/// Clauses, all of which have to hold; a clause holds if one of its features is there.
type Clauses = Vec<Vec<String>>;

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> String {
        let hint = match self.rest.chars().next() {
            Some('*') => "numbers of hosts for a feature are not planned for",
            Some(',') => "a list with commas is not planned for: join features with '&' or '|'",
            _ => "features are joined with '&' and '|' and grouped with ( ) or [ ]",
        };
        format!("'{}' is not understood: {hint}", self.text)
    }

    fn takes(&mut self, letter: char) -> bool {
        let Some(rest) = self.rest.trim_start().strip_prefix(letter) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn expression(&mut self) -> Result<Vec<Clauses>, String> {
        let mut left = self.term()?;
        loop {
            if self.takes('&') {
                let right = self.term()?;
                left = self.both(&left, &right)?;
            } else if self.takes('|') {
                let right = self.term()?;
                left = self.either(&left, &right)?;
            } else {
                return Ok(left);
            }
        }
    }

    fn both(&self, left: &[Clauses], right: &[Clauses]) -> Result<Vec<Clauses>, String> {
        let clauses = |side: &[Clauses]| side.iter().map(Vec::len).max().unwrap_or(0);
        if left.len() * right.len() > MOST || clauses(left) + clauses(right) > MOST {
            return Err(self.too_many());
        }
        Ok(product(left, right, |a, b| [a.clone(), b.clone()].concat()))
    }

    fn either(&self, left: &[Clauses], right: &[Clauses]) -> Result<Vec<Clauses>, String> {
        let ([left], [right]) = (left, right) else {
            let text = self.text;
            return Err(format!(
                "'{text}': '|' beside brackets is not planned for: put it inside of them"
            ));
        };
        if left.len() * right.len() > MOST {
            return Err(self.too_many());
        }
        Ok(vec![product(left, right, |a, b| [a.clone(), b.clone()].concat())])
    }

    fn too_many(&self) -> String {
        format!("'{}' has too many combinations", self.text)
    }

    fn term(&mut self) -> Result<Vec<Clauses>, String> {
        if self.takes('(') {
            self.inside(')', Self::expression)
        } else if self.takes('[') {
            self.inside(']', Self::choices)
        } else {
            let end = self.rest.find(|c: char| "&|()[]*,".contains(c)).unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at(end);
            let name = name.trim();
            if name.is_empty() {
                return Err(self.wrong());
            }
            self.rest = rest;
            Ok(vec![vec![vec![name.to_owned()]]])
        }
    }

    fn inside(
        &mut self,
        close: char,
        read: fn(&mut Self) -> Result<Vec<Clauses>, String>,
    ) -> Result<Vec<Clauses>, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("'{}' has too many parentheses", self.text));
        }
        let all = read(self)?;
        self.depth -= 1;
        if self.takes(close) { Ok(all) } else { Err(self.wrong()) }
    }

    /// `a|b&c` in brackets: each item is an alternative.
    fn choices(&mut self) -> Result<Vec<Clauses>, String> {
        let mut all = Vec::new();
        loop {
            let mut item = self.term()?;
            while self.takes('&') {
                let right = self.term()?;
                item = self.both(&item, &right)?;
            }
            all.extend(item);
            if all.len() > MOST {
                return Err(self.too_many());
            }
            if !self.takes('|') {
                return Ok(all);
            }
        }
    }
}

fn product<T>(left: &[T], right: &[T], join: impl Fn(&T, &T) -> T) -> Vec<T> {
    left.iter().flat_map(|a| right.iter().map(|b| join(a, b)).collect::<Vec<T>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let clause = |clause: &Vec<String>| clause.join("|");
        let features = |f: &Features| f.0.iter().map(clause).collect::<Vec<_>>().join(" & ");
        read(text).unwrap().iter().map(features).collect::<Vec<_>>().join(" or ")
    }

    #[test]
    fn expressions_become_clauses() {
        let cases = [
            ("ib", "ib"),
            ("ib&h100", "ib & h100"),
            ("a|b", "a|b"),
            ("a&b|c", "a|c & b|c"),
            ("a|b&c", "a|b & c"),
            ("ib&(a|b)", "ib & a|b"),
            ("(a&b)|(c&d)", "a|c & a|d & b|c & b|d"),
            ("[r1|r2]", "r1 or r2"),
            ("[r1|r2]&ib", "r1 & ib or r2 & ib"),
            ("ib & [r1&x|(r2|r3)]", "ib & r1 & x or ib & r2|r3"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_planned_for_is_refused() {
        let deep = "(".repeat(99) + "a" + &")".repeat(99);
        let wide = "[a|b]&".repeat(20) + "c";
        let clauses = format!("{}x", "(a&b)|".repeat(20));
        for text in ["", "a*2", "[a*2&b*1]", "a,b", "a&", "&a", "(a", "a)", "[a|b]|c", "[", "()"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in [deep, wide, clauses] {
            assert!(read(&text).is_err(), "{text}");
        }
    }
}
