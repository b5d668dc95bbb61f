//! What the types promise to refuse, and how the compiler says so: each program of `compile_fail/`
//! fails with the message beside it.
//!
//! The programs are checked apart, with all dependencies again, so `.ci/run` runs this and not
//! `cargo test --workspace`. After a change of messages, or of the compiler:
//! `TRYBUILD=overwrite cargo test -p bibun --test compile_fail -- --ignored`.

#[test]
#[ignore = "checks all dependencies again"]
fn what_the_types_refuse() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
