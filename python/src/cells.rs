//! Experiments cell by cell, for whoever has more than one machine.

use std::path::PathBuf;

use laau_cli::{Parts, SweepOptions};
use pyo3::prelude::*;

use crate::errors::Raise as _;
use crate::threads::interruptible;

/// An experiment in cells that may be run anywhere and in any order.
#[pyclass(frozen, module = "laau", name = "Sweep")]
pub(crate) struct Sweep(laau_cli::Sweep);

#[pymethods]
impl Sweep {
    #[new]
    #[pyo3(signature = (file, quick=false, trace=None, seeds=vec![0, 1, 2], data=None))]
    fn new(
        file: PathBuf,
        quick: bool,
        trace: Option<String>,
        seeds: Vec<u64>,
        data: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = SweepOptions {
            file,
            quick,
            trace,
            data,
            seeds,
            ..SweepOptions::new("")
        };
        laau_cli::Sweep::load(&options).raise().map(Self)
    }

    /// What each cell is, in words.
    #[getter]
    fn cells(&self) -> Vec<String> {
        self.0.cells()
    }

    /// Runs one cell; gives its rows by the name of the table.
    fn run(&self, py: Python<'_>, cell: usize) -> PyResult<Parts> {
        interruptible(py, |_| self.0.run(cell))?.raise()
    }

    /// The policies that each cell can be run in pieces by; none if it cannot.
    #[getter]
    fn pieces(&self) -> Vec<&'static str> {
        self.0.pieces()
    }

    /// Runs one piece of a cell; gives what the tables need of it.
    fn run_piece(&self, py: Python<'_>, cell: usize, piece: usize) -> PyResult<String> {
        interruptible(py, |_| self.0.run_piece(cell, piece))?.raise()
    }

    /// Puts the pieces of a cell together: what `run` gives, byte for byte.
    fn assemble(&self, py: Python<'_>, cell: usize, pieces: Vec<String>) -> PyResult<Parts> {
        interruptible(py, |_| self.0.assemble(cell, &pieces))?.raise()
    }

    /// Writes the tables of all cells, given in the order of the cells.
    #[staticmethod]
    fn save(folder: PathBuf, cells: Vec<Parts>) -> PyResult<()> {
        laau_cli::Sweep::save(&folder, &cells).raise()
    }

    /// What must agree between machines whose tables are to have the same bytes.
    #[staticmethod]
    fn machine() -> String {
        let mut machine = format!("{} {}", std::env::consts::ARCH, std::env::consts::OS);
        #[cfg(target_arch = "x86_64")]
        for (name, has) in [
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ] {
            if has {
                machine.extend([" ", name]);
            }
        }
        format!("{machine} {}", env!("CARGO_PKG_VERSION"))
    }
}
