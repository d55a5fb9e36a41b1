//! bandpilot readers.
