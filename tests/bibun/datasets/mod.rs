//! Data sets, and the way from them to batches.

use std::fs;
use std::path::PathBuf;

mod batches;
mod download;
mod files;
mod mnist;
mod splits;
mod transforms;

/// A folder that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("bibun-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
