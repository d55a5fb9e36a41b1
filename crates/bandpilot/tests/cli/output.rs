use std::process::Stdio;

use crate::{folder_with, run};

#[test]
fn every_command_has_help_with_an_example() {
    let folder = folder_with(&[]);
    for args in [
        &["cluster", "show"][..],
        &["cluster", "check"],
        &["measure", "import"],
        &["measure", "show"],
        &["simulate"],
        &["fill"],
        &["completions"],
    ] {
        let (code, out, _) = run(folder.path(), &[args, &["--help"]].concat());
        assert_eq!(code, 0);
        assert!(out.contains("Example") && out.contains("  bandpilot "), "{args:?}\n{out}");
    }
    let (code, out, _) = run(folder.path(), &["--help"]);
    assert!(code == 0 && out.contains("Exit codes:"), "{out}");
}

#[test]
fn wrong_usage_is_2_and_json_if_asked() {
    let folder = folder_with(&[]);
    let (code, out, err) = run(folder.path(), &["clutser"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("unrecognized subcommand"), "{err}");
    let (code, out, err) = run(folder.path(), &["clutser", "--json"]);
    assert_eq!((code, err.as_str()), (2, ""));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["error"]["kind"], "usage");
    let keys: Vec<&String> = json["error"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["column", "field", "file", "help", "kind", "line", "message"]);
}

#[test]
fn errors_are_one_json_object_with_everything_known() {
    let folder = folder_with(&[("bad.toml", "name = 'x'\nhost_type = 4\nhosts = []\n")]);
    let (code, out, err) = run(folder.path(), &["cluster", "show", "bad.toml", "--json"]);
    assert_eq!((code, err.as_str()), (3, ""));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let error = &json["error"];
    assert_eq!((error["file"].as_str(), error["line"].as_u64()), (Some("bad.toml"), Some(2)));
    assert_eq!((error["column"].as_u64(), error["field"].as_str()), (Some(13), Some("host_type")));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let program = assert_cmd::cargo::cargo_bin("bandpilot");
    let mut child = std::process::Command::new(program)
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn completions_are_made_for_every_shell() {
    let folder = folder_with(&[]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, out, _) = run(folder.path(), &["completions", shell]);
        assert!(code == 0 && out.contains("bandpilot"), "{shell}");
    }
}

#[test]
fn man_pages_are_printed_or_written() {
    let folder = folder_with(&[]);
    let (code, out, _) = run(folder.path(), &["man"]);
    assert!(code == 0 && out.contains(".TH bandpilot 1"), "{out}");
    let (code, out, err) = run(folder.path(), &["man", "--dir", "share/man1"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("share/man1: ") && out.ends_with(" pages written\n"), "{out}");
    let page = |name: &str| std::fs::read_to_string(folder.path().join("share/man1").join(name));
    for name in ["bandpilot.1", "bandpilot-dispatch.1", "bandpilot-measure-import.1"] {
        assert!(page(name).unwrap().contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(page("bandpilot-dispatch.1").unwrap().contains("spare"));
    std::fs::write(folder.path().join("file"), "").unwrap();
    crate::refused(folder.path(), &["man", "--dir", "file/below"], 5);
    let (code, json) = crate::run_json(folder.path(), &["man", "--dir", "more"]);
    assert!(code == 0 && json["written"][0] == "more/bandpilot.1", "{json}");
}
