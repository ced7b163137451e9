//! The files of a training run: the model, its checkpoint, its log.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use laau::net::{Checkpoint, CsvLog, Error, Model, ModelSpec, Summary};

use crate::failure::Failure;
use crate::output::{self, Named};

/// Where a run writes to.
pub(super) struct Files {
    pub(super) output: PathBuf,
    pub(super) checkpoint: PathBuf,
    log: Option<PathBuf>,
}

impl Files {
    pub(super) fn new(output: &Path, checkpoint: Option<&Path>, log: Option<&Path>) -> Self {
        let beside = || {
            let mut name = output.as_os_str().to_owned();
            name.push(".checkpoint");
            PathBuf::from(name)
        };
        Self {
            output: output.to_owned(),
            checkpoint: checkpoint.map_or_else(beside, Path::to_owned),
            log: log.map(Path::to_owned),
        }
    }

    /// What is written, by the flags that name it.
    pub(super) fn named(&self) -> Vec<Named<'_>> {
        [("-o", &*self.output), ("--checkpoint", &*self.checkpoint)]
            .into_iter()
            .chain(self.log.as_deref().map(|log| ("--log", log)))
            .collect()
    }

    /// The checkpoint to go on from, if that was asked for; the checkpoint of another run is not overwritten.
    pub(super) fn checkpoint_to_resume(&self, resume: bool) -> Result<Option<Checkpoint>, Failure> {
        let path = &self.checkpoint;
        match (resume, path.exists()) {
            (false, false) => Ok(None),
            (false, true) if Checkpoint::load(path).is_err() => Err(Failure::new(
                format_args!(
                    "{}: here is a file that is no checkpoint, or a damaged one",
                    path.display()
                ),
                "name another file with --checkpoint",
            )),
            (false, true) => Err(Failure::new(
                format_args!(
                    "{}: here is the checkpoint of a run that was interrupted",
                    path.display()
                ),
                "go on with --resume, or remove the file to begin anew",
            )),
            (true, false) => Err(Failure::new(
                format_args!("{}: there is no checkpoint to go on from", path.display()),
                "leave --resume out to begin anew, or name the file with --checkpoint",
            )),
            (true, true) => match Checkpoint::load(path) {
                Ok(checkpoint) => Ok(Some(checkpoint)),
                Err(error @ Error::InvalidFile { .. }) => Err(Failure::new(
                    error,
                    "the file is no checkpoint, or damaged: name another with --checkpoint; without --resume the run begins anew",
                )),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Checks that a checkpoint is of a model like this.
    pub(super) fn check_spec(&self, checkpoint: &Checkpoint, spec: &ModelSpec) -> Result<(), Failure> {
        let theirs = checkpoint.best_model().spec;
        for (field, same) in [
            ("problem", theirs.problem == spec.problem),
            ("parameters", theirs.parameters == spec.parameters),
            ("dimensions", theirs.dimensions == spec.dimensions),
            ("horizon", theirs.horizon == spec.horizon),
            ("horizons", theirs.shortest_horizon == spec.shortest_horizon),
            ("network", theirs.network == spec.network),
            ("features", theirs.features == spec.features),
            ("output", theirs.output == spec.output),
            ("form", theirs.form == spec.form),
        ] {
            if !same {
                return Err(self.differs(field));
            }
        }
        Ok(())
    }

    /// What the trainer says about a checkpoint of other settings or episodes, with the file's name.
    pub(super) fn other_run(&self, error: Error) -> Failure {
        match error {
            Error::InvalidSetting { field, .. } => self.differs(field),
            other => other.into(),
        }
    }

    fn differs(&self, field: &str) -> Failure {
        Failure::new(
            format_args!(
                "{}: the checkpoint is of another run: its `{}` differs",
                self.checkpoint.display(),
                field.replace('_', "-")
            ),
            "give the settings and files of that run, or remove the checkpoint to begin anew",
        )
    }

    /// Makes sure that everything can be written, and opens the log.
    pub(super) fn open(&self) -> Result<CsvLog<Box<dyn Write>>, Failure> {
        output::probe(&self.output)?;
        output::probe(&self.checkpoint)?;
        let log: Box<dyn Write> = match &self.log {
            Some(path) => Box::new(Fresh::open(path)?),
            None => Box::new(std::io::sink()),
        };
        Ok(CsvLog::new(log))
    }

    /// Writes the model; the run is over, and its checkpoint goes.
    pub(super) fn save(&self, model: &Model, summary: &Summary) -> Result<(), Failure> {
        save_model(&self.output, model, summary)?;
        self.remove_checkpoint()
    }

    pub(super) fn remove_checkpoint(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.checkpoint) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::file(
                &self.checkpoint,
                &error,
                "the model is written; remove the checkpoint by hand",
            )),
            _ => Ok(()),
        }
    }
}

/// A file that is begun anew with the first byte: a run that is refused leaves the log of the one before, and no new one.
struct Fresh {
    path: PathBuf,
    /// Open from the start if it is a pipe or a device, which ends for its reader when it is closed.
    file: Option<File>,
}

impl Fresh {
    /// Makes sure that the file can be written. A link is followed to where the file is, or will be.
    fn open(path: &Path) -> Result<Self, Failure> {
        // What is behind a link to a pipe has no name.
        let path = if path.is_symlink() && !path.exists() {
            output::resolve(path)
        } else {
            path.to_owned()
        };
        if !path.exists() {
            output::probe(&path)?;
            return Ok(Self { path, file: None });
        }
        let opened = File::options().write(true).open(&path);
        let file = opened.map_err(|error| output::cannot_write(&path, &error))?;
        let is_regular = file.metadata().is_ok_and(|found| found.is_file());
        Ok(Self {
            path,
            file: (!is_regular).then_some(file),
        })
    }
}

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// Writes a model as a whole or not at all.
pub(crate) fn save_model(path: &Path, model: &Model, summary: &Summary) -> Result<(), Failure> {
    laau::net::save_model(path, model, summary).map_err(|error| match error {
        Error::Io { source, .. } => output::cannot_write(path, &source),
        other => other.into(),
    })
}
