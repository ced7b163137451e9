//! Progress on standard error: a bar on a terminal, now and then a line elsewhere, nothing when quiet.

use std::fmt::Display;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// How progress is shown.
pub(crate) struct Progress {
    bar: ProgressBar,
    shows: Shows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Bar,
    Lines,
    Nothing,
}

impl Progress {
    /// Progress over so many units of work.
    pub(crate) fn new(units: usize, quiet: bool) -> Self {
        let shows = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shows::Nothing,
            (false, true) => Shows::Bar,
            (false, false) => Shows::Lines,
        };
        let target = match shows {
            Shows::Bar => ProgressDrawTarget::stderr(),
            Shows::Lines | Shows::Nothing => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(units as u64), target);
        // The template is a constant; a wrong one would leave the stock style.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self { bar, shows }
    }

    /// The number of units is known only now.
    pub(crate) fn set_length(&self, units: usize) {
        self.bar.set_length(units as u64);
    }

    /// So many units are done, and this is to be said about them.
    pub(crate) fn at(&self, units: usize, words: impl Display) {
        self.bar.set_position(units as u64);
        if self.shows == Shows::Bar {
            self.bar.set_message(words.to_string());
        }
    }

    /// Begins at so many units: what was done before does not count for the time left.
    pub(crate) fn resume(&self, units: usize) {
        self.bar.set_position(units as u64);
        self.bar.reset_eta();
    }

    /// One more unit is done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// One more unit is done: the bar says which and how long the rest takes; elsewhere it is a line.
    pub(crate) fn done(&self, words: impl Display) {
        self.bar.inc(1);
        match self.shows {
            Shows::Bar => self.bar.set_message(words.to_string()),
            Shows::Lines => {
                let (at, of) = (self.bar.position(), self.bar.length().unwrap_or_default());
                output::talk(format_args!(
                    "  [{at}/{of}] {words}, about {} s left",
                    self.bar.eta().as_secs()
                ));
            }
            Shows::Nothing => {}
        }
    }

    /// A line that stays.
    pub(crate) fn line(&self, words: impl Display) {
        match self.shows {
            Shows::Bar => self.bar.suspend(|| output::talk(words)),
            Shows::Lines => output::talk(words),
            Shows::Nothing => {}
        }
    }

    /// A line for a reader of a log, where there is no bar.
    pub(crate) fn log(&self, words: impl Display) {
        if self.shows == Shows::Lines {
            output::talk(words);
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
