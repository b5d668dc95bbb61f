//! Several processes, which are threads here.

mod communicators;
mod data;
mod data_parallel;
mod functions;
mod models;
mod trainers;
