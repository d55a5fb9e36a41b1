//! bandpilot model.
