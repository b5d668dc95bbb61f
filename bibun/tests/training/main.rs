//! Training: the loop, its extensions, and going on after being killed.

mod extensions;
mod killed;
mod points;
mod tensorboard;
mod the_loop;
