//! Functions that are wrong on purpose.
