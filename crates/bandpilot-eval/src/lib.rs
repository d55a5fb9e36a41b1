//! bandpilot eval.
