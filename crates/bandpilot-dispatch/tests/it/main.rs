//! Integration tests of the dispatcher.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cases;
mod oracle;
mod parallel;
mod properties;
mod scenario;
mod tradeoff;
