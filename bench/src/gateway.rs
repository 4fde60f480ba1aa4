//! Whole requests against a real `dormouse dev`, beside a request that does nothing.
