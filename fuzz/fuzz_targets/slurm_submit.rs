#![no_main]
use bandpilot_slurm::submit::Reading;
use bandpilot_slurm::submit::options::{Environment, Own, Program, read, split_own};
use libfuzzer_sys::fuzz_target;

// The first line is the words, the second the value of some variables, the rest the script.
fuzz_target!(|input: &str| {
    let mut lines = input.splitn(3, '\n');
    let (words, value) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let script = format!("#!/bin/sh\n{}", lines.next().unwrap_or_default());
    let words: Vec<String> = words.split(' ').map(ToOwned::to_owned).collect();
    let names = ["SBATCH_GRES", "SBATCH_CONSTRAINT", "SBATCH_ARRAY_INX", "SLURM_TIMELIMIT"];
    let env: Environment = names.iter().map(|name| ((*name).to_owned(), value.to_owned())).collect();
    for program in [Program::Sbatch, Program::Srun] {
        let own = [Own { name: "explain", takes_value: false }];
        let (mine, rest) = split_own(program, &words, &own);
        assert_eq!(mine.len() + rest.len(), words.len());
        match read(program, &rest, &env, &mut |_| Ok(script.clone())) {
            Ok(Reading::Planned(submission)) => {
                assert!(submission.ask.array.is_none_or(|array| array.indexes.len() <= 100_000));
            }
            Ok(Reading::Untouched { call, .. }) => assert_eq!(call.argv[1..], rest[..]),
            Err(reasons) => assert!(!reasons.is_empty()),
        }
    }
});
