//! The one door to the network.
