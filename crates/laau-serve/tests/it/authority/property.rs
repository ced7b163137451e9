//! Random requests, faults, crashes and clocks against books in exact rationals.

use std::collections::BTreeMap;

use laau_serve::{AccountView, Answer, Change, Entry, Error};
use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::sample::Index;

use super::books::{Books, Hold, exact};
use super::house::{Fault, House, decide, release, settle, spec};

/// What an account is, for the model: its settings, the length of a context, and what its lower corner uses.
const ACCOUNTS: [(&str, usize, &[f64]); 4] = [
    (
        r#"{"name":"a","policy":{"name":"mw"},"budgets":[12.1],"horizon":6,"rollover":true}"#,
        1,
        &[1.0],
    ),
    (
        r#"{"name":"b","problem":{"name":"log-utility","lower":0.7,"usage":[[1,0.5],[0.3,1.1]]},"policy":{"name":"equal"},
            "budgets":[9.7,8.3],"horizon":5}"#,
        2,
        &[1.0 * 0.7 + 0.5 * 0.7, 0.3 * 0.7 + 1.1 * 0.7],
    ),
    (
        r#"{"name":"c","policy":{"name":"dgd"},"budgets":[20.3],"horizon":7,"rollover":true,"period":{"seconds":10}}"#,
        1,
        &[1.0],
    ),
    (
        r#"{"name":"d","policy":{"name":"dgd"},"guard":{"policy":{"name":"equal"},"level":0.9},"budgets":[14.9],"horizon":8}"#,
        1,
        &[1.0],
    ),
];

/// How much of a hold is settled.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Nothing,
    Part(f64),
    AllButOneBit,
    All,
    OneBitMore,
    Negative,
    NotANumber,
    TooFew,
}

#[derive(Debug, Clone)]
enum Ask {
    Decide(f64),
    BadContext(u8),
    /// One of the holds of the last two periods, or one that never was.
    Settle(Index, Amount),
    Release(Index),
    Skip(usize),
    Open,
}

#[derive(Debug, Clone)]
struct Sent {
    account: usize,
    key: String,
    change: Change,
}

#[derive(Debug, Clone)]
enum Request {
    New(usize, Ask),
    /// A request that was sent before, once more.
    Again(Index),
    /// A key that was used before, for something else.
    Reuse(Index, Ask),
}

#[derive(Debug, Clone)]
enum Action {
    /// Requests that share a commit, which may fail.
    Requests(Vec<Request>, Fault),
    Clock(i64),
    /// To the end of the period by the clock, and a little before or after.
    ClockToEnd(i64),
    /// A crash while requests are under way.
    Crash(Vec<Request>),
    Stop,
    Close(usize),
    CreateAgain(usize),
}

struct World {
    house: House,
    sent: Vec<Sent>,
    keys: usize,
    closed: [bool; 4],
    logs: BTreeMap<(usize, u64), Vec<Entry>>,
    books: Vec<Books>,
    views: Vec<AccountView>,
}

impl World {
    fn new() -> Self {
        let house = House::new();
        for (json, ..) in ACCOUNTS {
            house.create(spec(json)).unwrap();
        }
        let mut world = Self {
            house,
            sent: Vec::new(),
            keys: 0,
            closed: [false; 4],
            logs: BTreeMap::new(),
            books: Vec::new(),
            views: Vec::new(),
        };
        world.audit();
        world
    }

    /// Reads every log anew and checks all of it. Nothing that was there before may have changed.
    fn audit(&mut self) {
        self.books.clear();
        self.views.clear();
        for account in 0..ACCOUNTS.len() {
            let view = self.house.view(name(account)).unwrap();
            let number = view.period.as_ref().unwrap().number;
            let mut logs = Vec::new();
            for period in number.saturating_sub(1)..=number {
                let log = self.house.entries(name(account), period);
                if let Some(known) = self.logs.insert((account, period), log.clone()) {
                    assert_eq!(log[..known.len()], known, "what was written has changed");
                }
                logs.push(log);
            }
            let books = Books::read(&view.spec, number, &logs);
            books.check_view(&view);
            assert_eq!(view.closed, self.closed[account]);
            self.books.push(books);
            self.views.push(view);
        }
    }

    fn play(&mut self, action: &Action) {
        match action {
            Action::ClockToEnd(by) => {
                let end = self.books[2].open.until.unwrap();
                self.house.set_clock(end.saturating_add_signed(*by));
            }
            Action::Clock(by) => self.house.set_clock(self.house.now().saturating_add_signed(*by)),
            Action::Requests(requests, fault) => self.requests(requests, *fault),
            Action::Crash(requests) => {
                let sent = self.sendable(requests);
                self.house.fire(sent.iter().map(Sent::parts).collect());
                self.house.crash();
                self.house.start();
                // Some of them may have been carried out: the log tells.
                self.audit();
            }
            Action::Stop => {
                self.house.stop();
                self.house.start();
                let views = self.views.clone();
                self.audit();
                assert_eq!(self.views, views, "replaying gives another state");
            }
            Action::Close(account) => {
                let closing = self.house.authority().close(name(*account));
                assert!(self.house.runtime.block_on(closing).unwrap().closed);
                self.closed[*account] = true;
                self.audit();
            }
            Action::CreateAgain(account) => {
                let mut asked = spec(ACCOUNTS[*account].0);
                let same = self.house.create(asked.clone());
                match same {
                    Ok(view) => assert_eq!(view, self.views[*account]),
                    Err(Error::AccountClosed { .. }) => assert!(self.closed[*account]),
                    Err(error) => panic!("{error}"),
                }
                asked.rollover = !asked.rollover;
                assert!(self.house.create(asked).is_err());
                self.audit();
            }
        }
    }

    fn requests(&mut self, requests: &[Request], fault: Fault) {
        let sent = self.sendable(requests);
        let before = self.books.clone();
        let known = self.logs.clone();
        let views = self.views.clone();
        self.house.shared.set(fault);
        let answers = self.house.together(sent.iter().map(Sent::parts).collect());
        self.house.shared.set(Fault::None);
        if let ([sent], [answer]) = (&sent[..], &answers[..])
            && fault == Fault::None
        {
            self.check_expected(sent, answer);
        }
        self.audit();
        let failed = answers
            .iter()
            .any(|answer| matches!(answer, Err(error) if error.status() == 503));
        assert!(!failed || fault != Fault::None, "{answers:?}");
        if failed {
            let all = answers.iter().all(Result::is_err);
            assert!(all, "some of a batch that failed was answered: {answers:?}");
        }
        if failed && fault == Fault::Before {
            assert_eq!(self.logs, known, "what was not written is there");
            assert_eq!(self.views, views, "what was not written is remembered");
        }
        for account in 0..ACCOUNTS.len() {
            let old = &before[account].keys;
            let new = self.books[account].keys.keys();
            let new = new.filter(|key| !old.contains_key(*key)).count();
            let fresh = sent.iter().zip(&answers).filter(|(sent, answer)| {
                sent.account == account && matches!(answer, Ok(answer) if !answer.repeated)
            });
            let fresh = fresh.count();
            if failed {
                // Of what was written all the same, nobody heard.
                continue;
            }
            // Every new line is the clock's, or that of a request which was answered for the first time.
            if self.is_whole(&sent, &before, account) {
                assert_eq!(new, fresh);
            } else {
                assert!(new <= fresh);
            }
        }
        for place in 0..sent.len() {
            self.check_answer(&before, &sent, &answers, place);
        }
    }

    /// Whether the log still has all that a batch did to an account: where a period began in the midst of it, what was asked before
    /// may be forgotten already.
    fn is_whole(&self, batch: &[Sent], before: &[Books], account: usize) -> bool {
        batch.len() == 1 || self.books[account].number == before[account].number
    }

    /// Checks one answer of a batch against the log.
    fn check_answer(
        &self,
        before: &[Books],
        batch: &[Sent],
        answers: &[Result<Answer, Error>],
        place: usize,
    ) {
        let (sent, answer) = (&batch[place], &answers[place]);
        let whole = self.is_whole(batch, before, sent.account);
        let carried = self.books[sent.account].keys.get(&sent.key);
        match (answer, carried) {
            (Ok(answer), carried) => {
                assert!(carried.is_some() || !whole, "an answer is not in the log");
                if let Some(carried) = carried {
                    assert!(carried.is_of(&sent.change));
                    let stored = &carried.request;
                    assert_eq!((stored.status, &stored.answer), (answer.status, &answer.body));
                }
                let known = before[sent.account].keys.contains_key(&sent.key);
                let earlier = has_answer(&batch[..place], answers, sent);
                assert_eq!(answer.repeated, known || earlier, "{sent:?}");
            }
            (Err(Error::KeyReused), carried) => {
                assert!(carried.is_some() || !whole, "a key is refused that nobody had");
                assert!(
                    carried.is_none_or(|carried| !carried.is_of(&sent.change)),
                    "a repeated request is taken for another: {sent:?}"
                );
            }
            (Err(error), _) if error.status() == 503 => {}
            // A refusal stores nothing: if the key is there, a later request had it.
            (Err(error), Some(carried)) => {
                let known = before[sent.account].keys.contains_key(&sent.key);
                let later = has_answer(&batch[place + 1..], &answers[place + 1..], sent);
                assert!(!known && later, "{error} after {carried:?}");
            }
            (Err(_), None) => {}
        }
    }

    /// What a request must be answered with, by the books.
    fn check_expected(&self, sent: &Sent, answer: &Result<Answer, Error>) {
        let books = &self.books[sent.account];
        let (_, context_len, lower) = ACCOUNTS[sent.account];
        let (closed, now) = (self.closed[sent.account], self.house.now());
        let expected = if let Some(carried) = books.keys.get(&sent.key) {
            if carried.is_of(&sent.change) { 200 } else { 422 }
        } else {
            let begins = books.open.until.is_some_and(|until| now >= until);
            match &sent.change {
                Change::Settle { decision, usage } => match self.hold_of(sent.account, decision) {
                    None => 404,
                    Some(Hold::Closed(_)) => 409,
                    Some(Hold::Open(held)) => {
                        let fits = usage.len() == held.len()
                            && usage
                                .iter()
                                .zip(held)
                                .all(|(used, held)| (0.0..=*held).contains(used));
                        if fits { 200 } else { 422 }
                    }
                },
                Change::Release { decision } => match self.hold_of(sent.account, decision) {
                    None => 404,
                    Some(Hold::Closed(_)) => 409,
                    Some(Hold::Open(_)) => 200,
                },
                _ if closed => 410,
                Change::Open if books.open.until.is_some() => 409,
                Change::Open => 200,
                Change::Skip { steps: 0 } => 400,
                Change::Skip { steps } => {
                    let left = if begins { 7 } else { books.open.steps_left() };
                    if *steps <= left { 200 } else { 409 }
                }
                Change::Decide(request) => {
                    let good = |value: &f64| value.is_finite() && *value >= 0.0;
                    let covers = |(budget, &least): (usize, &f64)| {
                        let remaining = exact(books.open.budgets[budget]) - books.open.spent(budget).1;
                        remaining >= exact(least)
                    };
                    if request.context.len() != context_len || !request.context.iter().all(good) {
                        422
                    } else if begins || books.open.steps_left() > 0 || lower.iter().enumerate().all(covers) {
                        200
                    } else {
                        409
                    }
                }
            }
        };
        let found = answer.as_ref().map_or_else(Error::status, |answer| answer.status);
        assert_eq!(found, expected, "{sent:?}: {answer:?}");
    }

    fn hold_of(&self, account: usize, decision: &str) -> Option<&Hold> {
        let (period, hold) = decision.split_once('-').unwrap();
        self.books[account].hold(period.parse().unwrap(), hold.parse().unwrap())
    }

    /// Gives requests their keys and values.
    fn sendable(&mut self, requests: &[Request]) -> Vec<Sent> {
        let mut all = Vec::new();
        for request in requests {
            let sent = match request {
                Request::Again(index) if !self.sent.is_empty() => index.get(&self.sent).clone(),
                Request::Reuse(index, ask) if !self.sent.is_empty() => {
                    let Sent { account, key, .. } = index.get(&self.sent).clone();
                    let change = self.change(account, ask);
                    Sent { account, key, change }
                }
                Request::Again(_) => continue,
                Request::New(account, ask) => self.fresh(*account, ask),
                Request::Reuse(_, ask) => self.fresh(0, ask),
            };
            self.sent.push(sent.clone());
            all.push(sent);
        }
        all
    }

    fn fresh(&mut self, account: usize, ask: &Ask) -> Sent {
        self.keys += 1;
        Sent {
            account,
            key: format!("key-{}", self.keys),
            change: self.change(account, ask),
        }
    }

    fn change(&self, account: usize, ask: &Ask) -> Change {
        let width = ACCOUNTS[account].1;
        match ask {
            Ask::Decide(context) => decide(&vec![*context; width]),
            Ask::BadContext(0) => decide(&vec![f64::NAN; width]),
            Ask::BadContext(1) => decide(&vec![-1.0; width]),
            Ask::BadContext(2) => decide(&[]),
            Ask::BadContext(_) => decide(&vec![0.5; width + 1]),
            Ask::Skip(steps) => Change::Skip { steps: *steps },
            Ask::Open => Change::Open,
            Ask::Release(index) => release(&self.some_decision(account, *index).0),
            Ask::Settle(index, amount) => {
                let (decision, held) = self.some_decision(account, *index);
                let of = |held: &f64| match amount {
                    Amount::Nothing => 0.0,
                    Amount::Part(part) => part * held,
                    Amount::AllButOneBit => held.next_down(),
                    Amount::All | Amount::TooFew => *held,
                    Amount::OneBitMore => held.next_up(),
                    Amount::Negative => -f64::from_bits(1),
                    Amount::NotANumber => f64::NAN,
                };
                let few = usize::from(matches!(amount, Amount::TooFew));
                let usage: Vec<f64> = held.iter().skip(few).map(of).collect();
                settle(&decision, &usage)
            }
        }
    }

    /// A decision of the last three periods, or one too many, and what it held at first.
    fn some_decision(&self, account: usize, index: Index) -> (String, Vec<f64>) {
        let books = &self.books[account];
        let mut all = Vec::new();
        let periods = [books.previous.as_ref(), Some(&books.open)];
        for (period, number) in periods
            .into_iter()
            .zip([books.number.wrapping_sub(1), books.number])
        {
            for (hold, held) in period.iter().flat_map(|period| &period.holds).enumerate() {
                let (Hold::Open(held) | Hold::Closed(held)) = held;
                all.push((format!("{number}-{hold}"), held.clone()));
            }
        }
        let nothing = vec![0.5; books.open.budgets.len()];
        all.push((
            format!("{}-{}", books.number, books.open.holds.len()),
            nothing.clone(),
        ));
        all.push((format!("{}-0", books.number.saturating_sub(2)), nothing));
        index.get(&all).clone()
    }
}

impl Sent {
    fn parts(&self) -> (String, String, Change) {
        (
            name(self.account).to_owned(),
            self.key.clone(),
            self.change.clone(),
        )
    }
}

fn name(account: usize) -> &'static str {
    ["a", "b", "c", "d"][account]
}

/// Whether one of these requests has the same key, and was carried out.
fn has_answer(batch: &[Sent], answers: &[Result<Answer, Error>], sent: &Sent) -> bool {
    let same = |other: &Sent| other.account == sent.account && other.key == sent.key;
    batch
        .iter()
        .zip(answers)
        .any(|(other, answer)| same(other) && answer.is_ok())
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        2 => Just(Amount::Nothing),
        4 => (0.0..1.0).prop_map(Amount::Part),
        1 => Just(Amount::AllButOneBit),
        2 => Just(Amount::All),
        1 => Just(Amount::OneBitMore),
        1 => Just(Amount::Negative),
        1 => Just(Amount::NotANumber),
        1 => Just(Amount::TooFew),
    ]
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        10 => (0.0..2.0).prop_map(Ask::Decide),
        1 => (0..4_u8).prop_map(Ask::BadContext),
        6 => (any::<Index>(), amounts()).prop_map(|(index, amount)| Ask::Settle(index, amount)),
        2 => any::<Index>().prop_map(Ask::Release),
        1 => (0..4_usize).prop_map(Ask::Skip),
        1 => Just(Ask::Open),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        8 => (0..4_usize, asks()).prop_map(|(account, ask)| Request::New(account, ask)),
        2 => any::<Index>().prop_map(Request::Again),
        1 => (any::<Index>(), asks()).prop_map(|(index, ask)| Request::Reuse(index, ask)),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let faults = prop_oneof![
        8 => Just(Fault::None),
        1 => Just(Fault::Before),
        1 => Just(Fault::After),
        1 => Just(Fault::Lookup),
    ];
    let batches = prop_oneof![
        3 => prop::collection::vec(requests(), 1),
        2 => prop::collection::vec(requests(), 2..=12),
    ];
    prop_oneof![
        40 => (batches, faults).prop_map(|(requests, fault)| Action::Requests(requests, fault)),
        4 => (-15_000..25_000_i64).prop_map(Action::Clock),
        2 => (-1..=1_i64).prop_map(Action::ClockToEnd),
        3 => prop::collection::vec(requests(), 0..4).prop_map(Action::Crash),
        2 => Just(Action::Stop),
        1 => (0..4_usize).prop_map(Action::Close),
        1 => (0..4_usize).prop_map(Action::CreateAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_requests_faults_and_crashes_breaks_the_books(
        actions in prop::collection::vec(actions(), 1..60),
    ) {
        let mut world = World::new();
        for action in &actions {
            world.play(action);
        }
        // All that was ever acknowledged in the last two periods is still answered alike.
        world.play(&Action::Stop);
        let sum = |account: usize| -> BigInt { world.books[account].open.spent(0).1 };
        for account in 0..ACCOUNTS.len() {
            prop_assert!(sum(account) <= exact(world.books[account].open.budgets[0]));
            let answered = world.books[account].keys.clone();
            for (key, carried) in answered {
                let sent = world
                    .sent
                    .iter()
                    .find(|sent| sent.account == account && sent.key == key && carried.is_of(&sent.change));
                let change = sent.expect("every key was sent").change.clone();
                // Repeating begins no period, whatever the clock says, so that no key is forgotten meanwhile.
                let again = world.house.change(name(account), &key, change).unwrap();
                prop_assert!(again.repeated);
                prop_assert_eq!(&again.body, &carried.request.answer);
            }
        }
    }
}
