//! Every command and every bad input, through the real binary.

mod compare;
mod crash;
mod data;
mod decide;
mod journal;
mod model;
mod support;
mod train;
mod usage;
