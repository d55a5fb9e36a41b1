//! Every command goes through a [`Runner`]: one that starts it, one that also writes down what came back, and one
//! that plays such a recording.
//!
//! This is the only part of the layers below the command line that starts processes and knows the time.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bandpilot_readers::{Diagnostic, Parsed};
use serde_json::{Value, json};

/// Name of the format of recordings.
const FORMAT: &str = "bandpilot-exchange";

/// What a command gave back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Its output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// When it was started, seconds since 1970.
    pub at_s: i64,
}

/// Why a command gave nothing back.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error("failed to start it: {0}")]
    Start(String),
    /// It took too long and was ended.
    #[error("no answer within {0} s")]
    TimedOut(u64),
    /// The recording has no (further) answer to this command.
    #[error("the recording has no further answer to it")]
    NotRecorded,
    /// The recording could not be written.
    #[error("failed to record it: {0}")]
    NotWritten(io::Error),
}

/// A command with what it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its input; nothing if empty.
    pub stdin: String,
    /// Environment variables to set beside those that are there.
    pub env: Vec<(String, String)>,
    /// Environment variables to take away.
    pub without: Vec<String>,
}

impl Call {
    /// A command without input.
    pub fn of(argv: &[&str]) -> Self {
        Self { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..Self::default() }
    }
}

/// Runs commands of the cluster manager.
pub trait Runner {
    /// Runs one to its end.
    ///
    /// # Errors
    /// If there is no reply; one that says the command failed is a reply.
    fn call(&mut self, call: &Call) -> Result<Reply, RunError>;

    /// Runs one without input. The first word is the program.
    ///
    /// # Errors
    /// As for [`Runner::call`].
    fn run(&mut self, argv: &[&str]) -> Result<Reply, RunError> {
        self.call(&Call::of(argv))
    }

    /// Runs several that do not depend on each other, where that is possible at once; their answers in the same order.
    fn call_all(&mut self, calls: &[Call]) -> Vec<Result<Reply, RunError>> {
        calls.iter().map(|call| self.call(call)).collect()
    }
}

/// Starts processes. Their times are in UTC, their words in the C locale.
#[derive(Debug, Clone)]
pub struct Process {
    /// After so long a command is ended.
    pub timeout: Duration,
    /// Environment variables to set beside those that are there.
    pub env: Vec<(String, String)>,
}

impl Default for Process {
    fn default() -> Self {
        Self { timeout: Duration::from_mins(1), env: Vec::new() }
    }
}

impl Runner for Process {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        self.start(call)
    }

    fn call_all(&mut self, calls: &[Call]) -> Vec<Result<Reply, RunError>> {
        let this = &*self;
        std::thread::scope(|scope| {
            let started: Vec<_> =
                calls.iter().map(|call| scope.spawn(|| this.start(call))).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                let lost = |_| Err(RunError::Start("the thread that ran it ended".to_owned()));
                thread.join().unwrap_or_else(lost)
            };
            started.into_iter().map(ended).collect()
        })
    }
}

impl Process {
    fn start(&self, call: &Call) -> Result<Reply, RunError> {
        let Some((program, arguments)) = call.argv.split_first() else {
            return Err(RunError::Start("no command".to_owned()));
        };
        let start = |error: io::Error| RunError::Start(error.to_string());
        let at_s = now_s();
        let mut command = Command::new(program);
        for name in &call.without {
            command.env_remove(name);
        }
        let set = self.env.iter().chain(&call.env);
        let mut child = command
            .args(arguments)
            .envs(set.map(|(key, value)| (key, value)))
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            // It would change what times look like.
            .env_remove("SLURM_TIME_FORMAT")
            .stdin(if call.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        if let Some(mut pipe) = child.stdin.take() {
            let text = call.stdin.clone();
            // Beside it: a program that answers before it has read all would otherwise block, as would this one.
            std::thread::spawn(move || pipe.write_all(text.as_bytes()));
        }
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let end = Instant::now() + self.timeout;
        let late = || RunError::TimedOut(self.timeout.as_secs());
        let text = |from: &Receiver<Vec<u8>>| {
            // A child of the command may hold the pipe longer than the command itself.
            let left = end.saturating_duration_since(Instant::now());
            let bytes = from.recv_timeout(left).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        // Its outputs end with it: to wait for them is faster than to look again and again whether it has ended.
        let texts = text(&stdout).and_then(|stdout| Some((stdout, text(&stderr)?)));
        let status = wait(&mut child, end).map_err(start)?.ok_or_else(late)?;
        let (stdout, stderr) = texts.ok_or_else(late)?;
        Ok(Reply { stdout, stderr, code: status.code(), at_s })
    }
}

/// Seconds since 1970.
fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed())
}

/// Reads a pipe to its end beside the process: a full pipe would stop it.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth something.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody waits any more if it took too long.
        let _ = give.send(bytes);
    });
    take
}

/// Waits for the end; ends it itself when it is late, and gives `None`.
fn wait(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            // It may have ended in between.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Asks again where a manager was away.
pub struct Patient<R> {
    /// What runs the commands.
    pub inner: R,
    /// For so long.
    pub patience: Duration,
    /// True if a command with this answer should be run again. It must not be one that changes anything.
    pub again: fn(&Call, &Reply) -> bool,
}

impl<R: Runner> Runner for Patient<R> {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        let first = self.inner.call(call)?;
        self.until_answered(call, first)
    }

    fn call_all(&mut self, calls: &[Call]) -> Vec<Result<Reply, RunError>> {
        let first = self.inner.call_all(calls);
        calls.iter().zip(first).map(|(call, reply)| self.until_answered(call, reply?)).collect()
    }
}

impl<R: Runner> Patient<R> {
    fn until_answered(&mut self, call: &Call, mut reply: Reply) -> Result<Reply, RunError> {
        let end = Instant::now() + self.patience;
        while (self.again)(call, &reply) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(200));
            reply = self.inner.call(call)?;
        }
        Ok(reply)
    }
}

/// Has asked some questions ahead, all at once; other commands are run when they come.
pub struct Ahead<'r> {
    inner: &'r mut dyn Runner,
    answers: Vec<(Call, Result<Reply, RunError>)>,
}

impl<'r> Ahead<'r> {
    /// Asks them. Each answer is given once.
    pub fn ask(inner: &'r mut dyn Runner, questions: &[&[&str]]) -> Self {
        let calls: Vec<Call> = questions.iter().map(|argv| Call::of(argv)).collect();
        let answers = inner.call_all(&calls);
        Self { inner, answers: calls.into_iter().zip(answers).collect() }
    }
}

impl Runner for Ahead<'_> {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        match self.answers.iter().position(|(asked, _)| asked == call) {
            Some(at) => self.answers.swap_remove(at).1,
            None => self.inner.call(call),
        }
    }
}

/// Writes down what another runner gives: a header, then a line of JSON for each command.
pub struct Recorder<R, W> {
    inner: R,
    out: W,
}

impl<R: Runner, W: Write> Recorder<R, W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(inner: R, mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", json!({"format": FORMAT, "version": 1}))?;
        Ok(Self { inner, out })
    }
}

impl<R: Runner, W: Write> Runner for Recorder<R, W> {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        let result = self.inner.call(call);
        self.written(call, result)
    }

    fn call_all(&mut self, calls: &[Call]) -> Vec<Result<Reply, RunError>> {
        let results = self.inner.call_all(calls);
        calls.iter().zip(results).map(|(call, result)| self.written(call, result)).collect()
    }
}

impl<R, W: Write> Recorder<R, W> {
    fn written(&mut self, call: &Call, result: Result<Reply, RunError>) -> Result<Reply, RunError> {
        let argv = &call.argv;
        let mut line = match &result {
            Ok(reply) => json!({
                "argv": argv, "at_s": reply.at_s, "code": reply.code,
                "stdout": reply.stdout, "stderr": reply.stderr,
            }),
            Err(error) => json!({"argv": argv, "failed": error.to_string()}),
        };
        if !call.stdin.is_empty() {
            line["stdin"] = Value::from(call.stdin.as_str());
        }
        writeln!(self.out, "{line}").map_err(RunError::NotWritten)?;
        self.out.flush().map_err(RunError::NotWritten)?;
        result
    }
}

/// Gives the answers of a recording: to each command the first answer that was not given yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    lines: VecDeque<(Vec<String>, Result<Reply, String>)>,
}

impl Replay {
    /// Reads a recording.
    pub fn read(text: &str) -> Parsed<Self> {
        let mut replay = Self::default();
        let mut diagnostics = Vec::new();
        let mut headed = false;
        for (line, number) in text.lines().zip(1_u32..).filter(|(line, _)| !line.trim().is_empty())
        {
            let mut refuse =
                |what: &str| diagnostics.push(Diagnostic::error("", what).at(number, 0));
            let Ok(value) = serde_json::from_str::<Value>(line) else {
                refuse("is not a line of JSON");
                continue;
            };
            if !headed {
                headed = value["format"] == FORMAT;
                if !headed {
                    refuse("is not a recording: its first line does not say bandpilot-exchange");
                    break;
                }
                if value["version"] != 1 {
                    refuse("is a recording of another version");
                    break;
                }
                continue;
            }
            match exchange(&value) {
                Some(exchange) => replay.lines.push_back(exchange),
                None => refuse("has no list 'argv' of words with its 'stdout'"),
            }
        }
        if !headed && diagnostics.is_empty() {
            diagnostics.push(Diagnostic::error("", "the recording is empty"));
        }
        Parsed { value: replay, diagnostics }
    }
}

fn exchange(value: &Value) -> Option<(Vec<String>, Result<Reply, String>)> {
    let word = |word: &Value| word.as_str().map(ToOwned::to_owned);
    let argv: Option<Vec<String>> = value.get("argv")?.as_array()?.iter().map(word).collect();
    if let Some(reason) = value.get("failed").and_then(Value::as_str) {
        return Some((argv?, Err(reason.to_owned())));
    }
    let reply = Reply {
        stdout: value.get("stdout").and_then(word)?,
        stderr: value.get("stderr").and_then(word).unwrap_or_default(),
        code: value.get("code").and_then(Value::as_i64).and_then(|code| code.try_into().ok()),
        at_s: value.get("at_s").and_then(Value::as_i64).unwrap_or(0),
    };
    Some((argv?, Ok(reply)))
}

impl Runner for Replay {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        let at = self.lines.iter().position(|(words, _)| *words == call.argv);
        let (_, result) = at.and_then(|at| self.lines.remove(at)).ok_or(RunError::NotRecorded)?;
        result.map_err(RunError::Start)
    }
}

#[cfg(test)]
#[path = "tests/exchange.rs"]
mod tests;
