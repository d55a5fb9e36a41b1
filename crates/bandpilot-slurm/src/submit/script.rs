//! The options in a batch script, and the script that is handed over.
//!
//! sbatch reads lines that begin with `#SBATCH`, without a space before it, up to the first line that is neither empty
//! nor a comment. The words of all of them are one list: a value may stand on the next line. Quotes of both kinds hold
//! words together, a backslash takes the next character as it is inside of them and outside (but a space ends the
//! word all the same), `#` outside of quotes begins a comment, a word that begins with `:` there is refused.
//! All of that was tried with 22.05.8.

/// Begins a line of options.
const DIRECTIVE: &str = "#SBATCH";
/// Begins such a line in the script that is handed over.
const NEUTRAL: &str = "##SBATCH (bandpilot)";

/// A word of an option line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::submit) struct Word {
    pub text: String,
    /// From 1.
    pub line: u32,
}

/// What the option lines of a script say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::submit) struct Directives {
    pub words: Vec<Word>,
    /// What is wrong, with the line.
    pub wrong: Vec<(u32, &'static str)>,
    /// The line that begins another component of a heterogeneous job.
    pub component: Option<u32>,
    /// The first line for another batch system.
    pub pbs: Option<u32>,
}

/// Reads the option lines.
pub(in crate::submit) fn directives(script: &str) -> Directives {
    let mut found = Directives::default();
    for (number, line) in head(script) {
        if line.starts_with("#PBS") {
            found.pbs.get_or_insert(number);
        }
        let Some(text) = line.strip_prefix(DIRECTIVE) else { continue };
        match words(text) {
            Ok(words) if matches!(words[..], [ref only] if only == "hetjob" || only == "packjob") =>
            {
                found.component.get_or_insert(number);
            }
            Ok(words) => {
                found.words.extend(words.into_iter().map(|text| Word { text, line: number }));
            }
            Err(reason) => found.wrong.push((number, reason)),
        }
    }
    found
}

/// The script with its option lines made comments. It has as many lines as before.
pub(in crate::submit) fn neutralised(script: &str) -> String {
    let last = head(script).last().map_or(0, |(number, _)| number as usize);
    let line = |(at, line): (usize, &str)| match line.strip_prefix(DIRECTIVE) {
        Some(text) if at < last => format!("{NEUTRAL}{text}"),
        _ => line.to_owned(),
    };
    script.split_inclusive('\n').enumerate().map(line).collect()
}

/// The lines before the first command, with their numbers from 1.
fn head(script: &str) -> impl Iterator<Item = (u32, &str)> {
    let lines = (1_u32..).zip(script.lines());
    lines.take_while(|(_, line)| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('#')
    })
}

/// The words of an option line.
fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => match letters.next() {
                Some(next) if quote.is_none() && next.is_whitespace() => words.extend(word.take()),
                Some(next) => word.get_or_insert_default().push(next),
                None => {}
            },
            (_, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) => break,
            (':', None) if word.is_none() => return Err("a word begins with ':'"),
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed") } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these was submitted to 22.05.8, and the comment of the job looked at.
    #[test]
    fn lines_are_read_as_slurm_reads_them() {
        let cases: [(&str, &[&str]); 18] = [
            (r#" --comment "x y""#, &["--comment", "x y"]),
            (r"-c3", &["-c3"]),
            (r"foo", &["foo"]),
            (r#" --comment=a"b c"d"#, &["--comment=ab cd"]),
            (r" --comment=a\nb", &["--comment=anb"]),
            (r#" --comment=a\"b"#, &["--comment=a\"b"]),
            (r" --comment=a\#b", &["--comment=a#b"]),
            (r" --comment=a\\b", &["--comment=a\\b"]),
            (r" --comment=a\", &["--comment=a"]),
            (r" --comment=a\ b", &["--comment=a", "b"]),
            (r#" --comment="a\nb\#c d""#, &["--comment=anb#c d"]),
            (r" --comment='a\nb\'c d'", &["--comment=anb'c d"]),
            (r#" --comment='x"y'"#, &["--comment=x\"y"]),
            (r#" --comment="a#b""#, &["--comment=a#b"]),
            (r#" --comment="""#, &["--comment="]),
            (r" --comment=a#b", &["--comment=a"]),
            (r#" --comment="a" -J x # foo "bar"#, &["--comment=a", "-J", "x"]),
            (r" --comment=a:b", &["--comment=a:b"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in [" --comment=a :b", " -n1 : -n2", " --comment='a", " -J a \"b"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn only_lines_before_the_first_command_count() {
        let script = "#!/bin/sh\n  #SBATCH -c1\n\n \t# text\n#SBATCH -c2 \n#PBS -l x\n#SBATCH --comment\n\
                      #SBATCH 'a\n#SBATCH foo\nsrun x\n#SBATCH -c3\n";
        let found = directives(script);
        let texts: Vec<(&str, u32)> =
            found.words.iter().map(|word| (word.text.as_str(), word.line)).collect();
        assert_eq!(texts, [("-c2", 5), ("--comment", 7), ("foo", 9)]);
        assert_eq!((found.wrong, found.pbs), (vec![(8, "a quote is not closed")], Some(6)));
        assert_eq!(directives("#!/bin/sh\n#SBATCH hetjob\n").component, Some(2));
        assert_eq!(
            neutralised(script),
            "#!/bin/sh\n  #SBATCH -c1\n\n \t# text\n##SBATCH (bandpilot) -c2 \n#PBS -l x\n\
             ##SBATCH (bandpilot) --comment\n##SBATCH (bandpilot) 'a\n##SBATCH (bandpilot) foo\nsrun x\n#SBATCH -c3\n"
        );
        assert_eq!(neutralised("#!/bin/sh\n#SBATCH -N1"), "#!/bin/sh\n##SBATCH (bandpilot) -N1");
        assert_eq!(neutralised(""), "");
    }
}
