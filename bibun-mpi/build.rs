//! Looks for MPI before the crates that need it are compiled, to say in plain words that it is missing.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MPICC");
    println!("cargo::rerun-if-env-changed=PATH");
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let answer = Command::new(&compiler).arg("-show").output();
    if answer.is_ok_and(|answer| answer.status.success()) {
        return;
    }
    println!(
        "cargo::error=bibun-mpi needs an MPI, and there is no `{compiler}` here. On Debian and Ubuntu: \
         apt-get install libopenmpi-dev openmpi-bin libclang-dev (or libmpich-dev mpich libclang-dev)"
    );
    std::process::exit(1);
}
