use super::*;

fn run(runner: &mut dyn Runner, argv: &[&str]) -> Result<Reply, String> {
    runner.run(argv).map_err(|error| error.to_string())
}

#[test]
fn a_recording_plays_what_was_recorded() {
    let commands: [&[&str]; 3] = [
        &["sh", "-c", "echo $TZ; echo no >&2; exit 3"],
        &["sh", "-c", "date +%Z"],
        &["/nonexistent/x"],
    ];
    let mut written = Vec::new();
    let mut recorder = Recorder::new(Process::default(), &mut written).unwrap();
    let seen: Vec<_> = commands.iter().map(|argv| run(&mut recorder, argv)).collect();
    let first = seen[0].clone().unwrap();
    assert_eq!(
        (first.stdout.as_str(), first.stderr.as_str(), first.code),
        ("UTC\n", "no\n", Some(3))
    );
    assert!(first.at_s > 1_700_000_000);
    let text = String::from_utf8(written).unwrap();
    let mut replay = Replay::read(&text).into_result().unwrap().0;
    assert_eq!(run(&mut replay, commands[1]), seen[1]);
    assert_eq!(run(&mut replay, commands[0]), seen[0]);
    assert!(run(&mut replay, commands[2]).unwrap_err().contains("failed to start it"));
    assert!(matches!(replay.run(commands[0]), Err(RunError::NotRecorded)));
}

#[test]
fn a_command_that_hangs_is_ended() {
    let mut process = Process { timeout: Duration::from_millis(50), ..Process::default() };
    assert!(matches!(process.run(&["sleep", "60"]), Err(RunError::TimedOut(_))));
    assert!(matches!(process.run(&[]), Err(RunError::Start(_))));
}

#[test]
fn long_outputs_do_not_block() {
    let reply =
        run(&mut Process::default(), &["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"]);
    assert_eq!(reply.unwrap().stdout.len(), 300_000);
}

#[test]
fn damaged_recordings_are_named_by_line() {
    for (text, line) in [
        ("", 0),
        ("{}", 1),
        ("{\"format\":\"bandpilot-exchange\",\"version\":2}", 1),
        ("{\"format\":\"bandpilot-exchange\",\"version\":1}\n\n{\"argv\":[1]}", 3),
        ("{\"format\":\"bandpilot-exchange\",\"version\":1}\nx", 2),
    ] {
        let read = Replay::read(text);
        assert_eq!(read.diagnostics.first().map(|d| d.line), Some(line), "{text}");
    }
}

#[test]
fn a_command_gets_its_input_and_its_environment() {
    let call = Call {
        stdin: "a\nb\n".to_owned(),
        env: vec![("GIVEN".to_owned(), "1".to_owned())],
        without: vec!["PATH".to_owned()],
        ..Call::of(&["/bin/sh", "-c", "cat; echo $GIVEN ${PATH:-none}"])
    };
    let mut written = Vec::new();
    let mut recorder = Recorder::new(Process::default(), &mut written).unwrap();
    let reply = recorder.call(&call).unwrap();
    assert!(reply.stdout.starts_with("a\nb\n1 "), "{}", reply.stdout);
    assert!(String::from_utf8(written).unwrap().contains(r#""stdin":"a\nb\n""#));
    // Input that nobody reads is no error.
    let long = Call { stdin: "x".repeat(1 << 20), ..Call::of(&["true"]) };
    assert_eq!(Process::default().call(&long).unwrap().code, Some(0));
}

#[test]
fn what_was_away_is_asked_again() {
    let text = r#"{"format":"bandpilot-exchange","version":1}
{"argv":["squeue"],"code":1,"stdout":"","stderr":"away"}
{"argv":["squeue"],"code":0,"stdout":"here","stderr":""}
{"argv":["sbatch"],"code":1,"stdout":"","stderr":"away"}
{"argv":["sbatch"],"code":0,"stdout":"twice","stderr":""}"#;
    let (inner, _) = Replay::read(text).into_result().unwrap();
    let again = |call: &Call, reply: &Reply| call.argv[0] == "squeue" && reply.code != Some(0);
    let mut patient = Patient { inner, patience: Duration::from_mins(1), again };
    assert_eq!(run(&mut patient, &["squeue"]).unwrap().stdout, "here");
    assert_eq!(run(&mut patient, &["sbatch"]).unwrap().code, Some(1));
    let (inner, _) = Replay::read(text).into_result().unwrap();
    let mut hasty = Patient { inner, patience: Duration::ZERO, again };
    assert_eq!(run(&mut hasty, &["squeue"]).unwrap().code, Some(1));
}

#[test]
fn questions_that_do_not_depend_on_each_other_are_asked_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // Each waits for what the other writes: one after the other neither would ever end.
    let script = |mine: &str, other: &str| {
        let (mine, other) = (path(mine), path(other));
        format!("touch {mine}; until [ -e {other} ]; do sleep 0.01; done; echo {mine}")
    };
    let (a, b) = (script("a", "b"), script("b", "a"));
    let (a, b) = (["sh", "-c", &a], ["sh", "-c", &b]);
    let mut written = Vec::new();
    let inner = Patient {
        inner: Process::default(),
        patience: Duration::ZERO,
        again: |_, reply| reply.code != Some(0),
    };
    let mut recorder = Recorder::new(inner, &mut written).unwrap();
    let mut ahead = Ahead::ask(&mut recorder, &[&a, &b]);
    assert_eq!(run(&mut ahead, &b).unwrap().stdout.trim(), path("b"));
    assert_eq!(run(&mut ahead, &a).unwrap().stdout.trim(), path("a"));
    // Asked again, and another: run as they come.
    assert_eq!(run(&mut ahead, &a).unwrap().stdout.trim(), path("a"));
    assert_eq!(run(&mut ahead, &["echo", "c"]).unwrap().stdout, "c\n");
    let text = String::from_utf8(written).unwrap();
    let mut replay = Replay::read(&text).into_result().unwrap().0;
    let mut again = Ahead::ask(&mut replay, &[&b]);
    assert_eq!(run(&mut again, &b).unwrap().stdout.trim(), path("b"));
    assert_eq!(run(&mut again, &["echo", "c"]).unwrap().stdout, "c\n");
}
