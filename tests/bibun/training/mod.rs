//! Training: the loop, its extensions, and going on after being killed.

mod broken_off;
mod compiled;
mod extensions;
mod folders;
mod killed;
pub(crate) mod points;
mod tensorboard;
mod the_loop;
