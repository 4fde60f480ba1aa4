//! Page tracking.
