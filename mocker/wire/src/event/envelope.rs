//! The envelope around every payload.
