//! bandpilot dispatch.
