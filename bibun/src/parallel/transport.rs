//! What carries messages between processes.

use std::time::Duration;

use bibun_array::Array;

/// The carrier of messages between processes, used by one thread. Messages from one process to another
/// arrive in the order in which they were sent; there is no other order.
pub trait Transport {
    /// Returns the number of this process.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Sends a message, without waiting for it to arrive.
    ///
    /// # Errors
    /// Returns a text if there is no way to that process any more.
    fn send(&mut self, to: usize, message: Message) -> Result<(), String>;

    /// Returns a message that has arrived, and the process that it is from. Waits for one at most that long.
    ///
    /// # Errors
    /// Returns a text if nothing can arrive any more.
    fn receive(&mut self, patience: Duration) -> Result<Option<(usize, Message)>, String>;

    /// Returns whether all that was sent is out of the hands of this process.
    fn is_idle(&mut self) -> bool;

    /// Ends the part that this process takes; after a fault, without waiting for others.
    fn close(self: Box<Self>, after_fault: bool);
}

/// A message from one process to another.
#[derive(Clone, Debug)]
pub enum Message {
    /// A part of a collective.
    Part {
        /// The group of processes that it belongs to.
        context: u64,
        /// The collective, with the shapes and dtypes that all must agree on.
        what: String,
        /// The line of the program that called it.
        location: String,
        /// The elements, as an array of rank 1 on the CPU.
        elements: Array,
    },
    /// The last message of a process.
    Left {
        /// The error that ended it, if it was one.
        why: Option<String>,
    },
}
