//! Black-box tests: they spawn the binary.
