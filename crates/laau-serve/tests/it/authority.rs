//! The authority without its HTTP face: what is decided, what is written, and what comes back.

mod books;
mod faults;
mod files;
mod house;
mod periods;
mod property;
mod rules;
