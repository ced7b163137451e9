//! The extension module behind the Python package `laau`: the facade crate, in the words of the command line.
//!
//! The package in `python/laau` is what people see; it names things, fills in defaults and makes frames. Here is what
//! computes: arrays in, arrays out, the interpreter released meanwhile.

mod arrays;
mod cells;
mod compare;
mod episode;
mod episodes;
mod errors;
mod layer;
mod ledger;
mod options;
mod policy;
mod scripted;
mod task;
mod threads;
mod train;

use pyo3::prelude::*;

/// Runs the command `laau` with its arguments and gives the exit status.
///
/// It handles signals on its own, as the binary does: call it from a process that does nothing else.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| laau_cli::run(arguments))
}

#[pymodule]
fn _laau(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "POLICIES",
        laau::registry::PolicyKind::ALL
            .map(laau::registry::PolicyKind::name)
            .to_vec(),
    )?;
    module.add("PROBLEMS", laau::registry::ProblemSpec::NAMES.to_vec())?;
    module.add_class::<episodes::Episodes>()?;
    module.add_class::<task::Task>()?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<episode::Episode>()?;
    module.add_class::<scripted::Observation>()?;
    module.add_class::<ledger::Ledger>()?;
    module.add_class::<layer::Layer>()?;
    module.add_class::<cells::Sweep>()?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(task::generate, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(train::learn, module)?)?;
    module.add_function(wrap_pyfunction!(train::fit, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(policy::load, module)?)?;
    module.add_function(wrap_pyfunction!(policy::restore_policy, module)?)?;
    module.add_function(wrap_pyfunction!(episodes::restore_episodes, module)?)?;
    module.add_function(wrap_pyfunction!(policy::untuned, module)?)?;
    module.add_function(wrap_pyfunction!(policy::scripted, module)?)?;
    Ok(())
}
