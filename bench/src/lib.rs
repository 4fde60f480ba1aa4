//! Measurements as ratios against a floor or a peer.
