//! The authority's thread.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use laau::registry::{ProblemSpec, digest};
use tokio::sync::broadcast;

use super::batch::Staged;
use super::folder::Folder;
use super::live::{Live, Request};
use super::load::load;
use super::queue::Receiver;
use super::{Answer, AuthorityOptions, Change, Command, Notice};
use crate::account::{AccountSpec, AccountView};
use crate::deployment::Deployment;
use crate::error::Error;
use crate::store::{AccountRecord, Claim, Store, StoreError, Wanted, Write};

/// How long an account that cannot be rebuilt is left alone: to try costs the time of a whole replay.
pub(super) const REST: Duration = Duration::from_secs(30);

/// What a commit takes at least that is worth waiting for others with: twice the way of a request and its answer, about.
const SLOW: Duration = Duration::from_millis(1);

/// The thread's own: the store, and every account that was used.
pub(super) struct Worker {
    store: Box<dyn Store>,
    options: AuthorityOptions,
    folder: Folder,
    accounts: HashMap<String, Live>,
    /// Accounts that cannot be rebuilt: why, and since when.
    unplayable: HashMap<String, (String, Instant)>,
    /// The number of accounts, as far as it is known: other nodes make some, too.
    made: Option<usize>,
    /// The requests of the last batch and those that came meanwhile: so many clients are likely to ask again.
    expected: usize,
    /// What the last commit took.
    took: Duration,
    notices: broadcast::Sender<Arc<Notice>>,
}

impl Worker {
    pub(super) fn new(
        store: Box<dyn Store>,
        options: AuthorityOptions,
        notices: broadcast::Sender<Arc<Notice>>,
    ) -> Self {
        Self {
            store,
            folder: Folder::new(options.policies.clone()),
            options,
            accounts: HashMap::new(),
            unplayable: HashMap::new(),
            made: None,
            expected: 0,
            took: Duration::ZERO,
            notices,
        }
    }

    /// Serves until it is told to stop, or nobody is left to ask; what waits then is still answered.
    pub(super) fn run(mut self, commands: &Receiver<Command>, stopping: &AtomicBool) {
        let mut tick = Instant::now() + self.options.tick;
        while !commands.is_over() {
            self.gather(commands);
            if commands.wait(1, tick) > 0 {
                self.serve(commands);
            }
            if stopping.load(Ordering::Acquire) {
                while commands.wait(1, Instant::now()) > 0 {
                    self.serve(commands);
                }
                break;
            }
            if Instant::now() >= tick {
                self.tick();
                tick = Instant::now() + self.options.tick;
            }
        }
        if let Err(error) = self.store.release() {
            tracing::warn!(%error, "the leases could not be given up");
        }
    }

    /// Clients that were answered together ask again one after the other. Where a commit is slow, by a disk or a network, they share
    /// one once more if it waits for them a little; where it is fast, the next is sooner done than they are all there.
    fn gather(&mut self, commands: &Receiver<Command>) {
        let wanted = std::mem::take(&mut self.expected).min(self.options.batch);
        if wanted > 1 && self.took >= SLOW {
            let patience = (self.took / 4).min(self.options.gather);
            commands.wait(wanted, Instant::now() + patience);
        }
    }

    /// Carries out all commands that wait, writes what they changed, and answers.
    fn serve(&mut self, commands: &Receiver<Command>) {
        let together = commands.take(self.options.batch.max(1));
        let answered = together.len();
        let mut staged = self.staged();
        self.look_up(&together, &mut staged);
        let now = self.options.clock.now();
        for command in together {
            self.apply(command, now, &mut staged);
        }
        self.commit(staged);
        self.expected = answered + commands.waiting();
    }

    /// Looks for the keys of all requests at once: a store behind a network is asked once, and not for each, nor for a key that
    /// memory knows to be new.
    fn look_up(&mut self, commands: &[Command], staged: &mut Staged) {
        let mut wanted = Vec::new();
        for command in commands {
            let Command::Change { account, key, .. } = command else {
                continue;
            };
            let Some(live) = self.accounts.get(account) else {
                continue;
            };
            if !live.may_have_key(key) {
                staged.looked_up(account, key, None);
            } else if let Some(open) = live.record.period {
                wanted.push(Wanted {
                    account,
                    periods: staged.periods(account, open),
                    key,
                });
            }
        }
        if wanted.is_empty() {
            return;
        }
        // A store that does not answer is asked again for each, and tells each.
        if let Ok(found) = self.store.by_keys(&wanted) {
            for (wanted, entry) in wanted.iter().zip(found) {
                let request = entry.and_then(|entry| entry.request);
                staged.looked_up(wanted.account, wanted.key, request);
            }
        }
    }

    /// What happens while nobody asks: leases are renewed, periods begin by the clock.
    fn tick(&mut self) {
        self.made = None;
        match self.store.renew() {
            Ok(lost) => {
                for account in lost {
                    tracing::warn!(%account, "another node has taken the account over");
                    self.accounts.remove(&account);
                }
            }
            Err(error) => tracing::warn!(%error, "the leases could not be renewed"),
        }
        let mut staged = self.staged();
        let now = self.options.clock.now();
        for (account, live) in &mut self.accounts {
            if let Err(error) = live.tick(now, &mut staged) {
                tracing::warn!(account, %error, "the next period could not begin");
            }
            if live.faulty {
                staged.faulty.push(account.clone());
            }
        }
        self.commit(staged);
    }

    fn staged(&self) -> Staged {
        Staged::new(self.notices.receiver_count() > 0)
    }

    /// Writes a batch, then answers. What was not written is forgotten.
    fn commit(&mut self, mut staged: Staged) {
        let committed = if staged.batch.writes.is_empty() {
            Ok(())
        } else {
            let began = Instant::now();
            let committed = self.store.commit(&staged.batch);
            self.took = began.elapsed();
            if let Some(metrics) = &self.options.metrics {
                metrics.committed(self.took, staged.changes(), committed.is_ok());
            }
            committed
        };
        match &committed {
            Ok(()) => {
                for account in &staged.faulty {
                    self.accounts.remove(account);
                }
                for notice in std::mem::take(&mut staged.notices) {
                    // Nobody may listen any more.
                    let _ = self.notices.send(notice);
                }
            }
            Err(error) => {
                tracing::warn!(%error, accounts = staged.batch.epochs.len(), "a batch was not written");
                self.made = None;
                for account in staged.batch.epochs.keys().chain(&staged.faulty) {
                    self.accounts.remove(account);
                }
                if let StoreError::Fenced { account } = error {
                    self.accounts.remove(account);
                }
            }
        }
        staged.answer(committed, self.options.runtime.as_ref());
    }

    fn apply(&mut self, command: Command, now: u64, staged: &mut Staged) {
        match command {
            Command::Change {
                account,
                key,
                change,
                reply,
            } => {
                let answer = self.change(&account, key, change, now, staged);
                staged.reply(reply, answer);
            }
            Command::Create { spec, reply } => {
                let name = spec.name.clone();
                let view = caught(&name, || self.create(spec, now, staged));
                staged.reply(reply, view);
            }
            Command::Close { account, reply } => {
                let view = self.live(&account).map(|live| {
                    live.close(staged);
                    live.view()
                });
                staged.reply(reply, view);
            }
            Command::Accounts { only, reply } => {
                let views = self.views(only);
                staged.reply(reply, views);
            }
            Command::Account { account, reply } => {
                let view = self.live(&account).map(|live| live.view());
                staged.reply(reply, view);
            }
            Command::Entries {
                account,
                period,
                from,
                most,
                reply,
            } => {
                // What the batch has not written yet is not told.
                let entries = self.expect_account(&account).and_then(|()| {
                    let entries = self.store.entries(&account, period, from, most);
                    entries.map_err(Error::from)
                });
                staged.reply(reply, entries);
            }
            Command::Keys { reply } => {
                let keys = self.store.keys().map_err(Error::from);
                staged.reply(reply, keys);
            }
            Command::AddKey { key, reply } => {
                staged.batch.writes.push(Write::Key(key));
                staged.reply(reply, Ok(()));
            }
            Command::RevokeKey { id, reply } => {
                let known = self.store.keys().map_err(Error::from);
                let known = known.map(|keys| keys.iter().any(|key| key.id == id));
                if let Ok(true) = known {
                    staged.batch.writes.push(Write::RevokeKey { id });
                }
                staged.reply(reply, known);
            }
            Command::Wake => {}
        }
    }

    fn change(
        &mut self,
        account: &str,
        key: String,
        change: Change,
        now: u64,
        staged: &mut Staged,
    ) -> Result<Answer, Error> {
        if key.is_empty() || key.len() > 255 || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::MissingKey);
        }
        let json = serde_json::to_vec(&change).map_err(|error| Error::Invalid {
            reason: error.to_string(),
        })?;
        let digest = digest(&json);
        self.live(account)?;
        if let Some(request) = staged.by_key(account, &key) {
            return Answer::again(request, &digest);
        }
        let Some(live) = self.accounts.get_mut(account) else {
            return Err(unknown(account));
        };
        if let Some(open) = live.record.period {
            let periods = staged.periods(account, open);
            let ask = || self.store.by_key(account, periods, &key);
            if let Some(request) = staged.stored(account, &key, ask)? {
                return Answer::again(&request, &digest);
            }
        }
        let answer = live.change(Request { key, digest, change }, now, staged);
        if live.faulty {
            staged.faulty.push(account.to_owned());
        }
        answer
    }

    fn create(&mut self, asked: AccountSpec, now: u64, staged: &mut Staged) -> Result<AccountView, Error> {
        asked.validate()?;
        let name = asked.name.clone();
        if self.accounts.contains_key(&name) || self.store.account(&name)?.is_some() {
            let live = self.live(&name)?;
            if live.record.closed {
                return Err(Error::AccountClosed { account: name });
            }
            if asked.is_met_by(&live.record.spec) {
                return Ok(live.view());
            }
            return Err(Error::AccountExists { account: name });
        }
        let made = match self.made {
            Some(made) => made,
            None => self.store.accounts()?.len(),
        };
        if made >= self.options.most_accounts {
            return Err(Error::Conflict {
                reason: format!("expected at most {} accounts", self.options.most_accounts),
            });
        }
        let mut spec = asked;
        // Before anything of that size is made.
        if let Some(problem) = &spec.problem {
            self.check_size(problem, 1)?;
        }
        let files = self.folder.read(&spec)?;
        let deployment = Deployment::new(&mut spec, &files)?;
        spec.validate()?;
        if let (Some(problem), Some(horizon)) = (&spec.problem, spec.horizon) {
            self.check_size(problem, deployment.steps_seen(problem, horizon))?;
        }
        let epoch = match self.store.claim(&name)? {
            Claim::Owned { epoch } => epoch,
            Claim::Elsewhere { address } => {
                let account = name;
                return Err(Error::Elsewhere { account, address });
            }
        };
        let mut digests = std::collections::BTreeMap::new();
        let mut writes = Vec::new();
        for (file, bytes) in files {
            let digest = digest(&bytes);
            digests.insert(file, digest.clone());
            writes.push(Write::File { digest, bytes });
        }
        let record = AccountRecord {
            spec,
            files: digests,
            period: None,
            closed: false,
            created: now,
        };
        let live = Live::create(record, epoch, deployment, now, staged)?;
        for write in writes {
            staged.write(&name, epoch, write);
        }
        let view = live.view();
        self.accounts.insert(name, live);
        self.made = Some(made + 1);
        Ok(view)
    }

    /// Every account, or only one; those that this node does not own, or cannot rebuild, without their periods. To look at a list
    /// must not move accounts between nodes, nor keep the lease of one that nobody uses.
    fn views(&mut self, only: Option<String>) -> Result<Vec<AccountView>, Error> {
        let names = if let Some(name) = only {
            BTreeSet::from([name])
        } else {
            let mut names: BTreeSet<String> = self.store.accounts()?.into_iter().collect();
            // Those of the batch under way are not written yet.
            names.extend(self.accounts.keys().cloned());
            names
        };
        let mut views = Vec::with_capacity(names.len());
        for name in names {
            if self.accounts.contains_key(&name) || self.store.owns(&name) {
                match self.live(&name) {
                    Ok(live) => {
                        views.push(live.view());
                        continue;
                    }
                    Err(Error::Store(error)) => return Err(error.into()),
                    Err(_) => {}
                }
            }
            views.extend(self.store.account(&name)?.map(|record| AccountView {
                spec: record.spec,
                closed: record.closed,
                context: None,
                period: None,
            }));
        }
        Ok(views)
    }

    fn expect_account(&mut self, name: &str) -> Result<(), Error> {
        if self.accounts.contains_key(name) || self.store.account(name)?.is_some() {
            return Ok(());
        }
        Err(unknown(name))
    }

    /// Refuses an account whose decisions take so long that the others have to wait.
    fn check_size(&self, problem: &ProblemSpec, steps: usize) -> Result<(), Error> {
        let ((actions, budgets), most) = (problem.size(), self.options.largest);
        let size = actions.saturating_mul(budgets).saturating_mul(steps);
        if size <= most {
            return Ok(());
        }
        Err(Error::TooLarge {
            actions,
            budgets,
            steps,
            most,
        })
    }

    /// An account, rebuilt from its log if it is not in memory.
    fn live(&mut self, name: &str) -> Result<&mut Live, Error> {
        if !self.accounts.contains_key(name) {
            if let Some((reason, since)) = self.unplayable.get(name)
                && let Some(rest) = REST.checked_sub(since.elapsed()).filter(|rest| !rest.is_zero())
            {
                return Err(Error::Unplayable {
                    account: name.to_owned(),
                    reason: reason.clone(),
                    rest,
                });
            }
            let live = caught(name, || load(&mut *self.store, name)).inspect_err(|error| {
                if let Error::Unplayable { reason, .. } = error {
                    tracing::error!(account = name, %error);
                    let told = (reason.clone(), Instant::now());
                    self.unplayable.insert(name.to_owned(), told);
                }
            })?;
            self.unplayable.remove(name);
            self.accounts.insert(name.to_owned(), live);
        }
        self.accounts.get_mut(name).ok_or_else(|| unknown(name))
    }
}

/// A problem or policy that panics on the settings of an account must not take the other accounts with it. Nothing is staged
/// before they have been tried.
fn caught<T>(account: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::Unplayable {
            account: account.to_owned(),
            reason: "its problem or policy panicked".to_owned(),
            rest: REST,
        })
    })
}

fn unknown(account: &str) -> Error {
    Error::UnknownAccount {
        account: account.to_owned(),
    }
}
