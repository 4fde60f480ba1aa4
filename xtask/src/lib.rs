//! Generates and builds what the project needs.
