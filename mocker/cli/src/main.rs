//! The dynosim command line.

fn main() {}
