//! The clients: they decide, settle, repeat keys, and ask again until they are answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::sync::Barrier;
use tokio::time::sleep;

use crate::history::{Asked, Decision};
use crate::http::{Client, Request, Response};
use crate::world::{Account, Open, Recent, World, lock};

/// How long a client waits for an answer before it asks again, elsewhere if there is another node.
const PATIENCE: Duration = Duration::from_secs(3);

/// Answers and decisions that clients remember of an account.
const REMEMBERED: usize = 64;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repertoire {
    /// Everything.
    Full,
    /// Decisions and settlements: what a naive service has.
    Naive,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Answered(String),
    /// Refused; whether every attempt was answered, so that nothing may have happened.
    Refused {
        status: u16,
        certain: bool,
    },
    /// Given up: its period is too long ago to ask again.
    Unknown,
}

/// The path and body of a request.
pub(crate) fn request(account: &str, key: &str, asked: &Asked, secret: &str) -> Request {
    let base = format!("/v1/accounts/{account}");
    let request = match asked {
        Asked::Open => Request::post(format!("{base}/periods"), "{}"),
        Asked::Decide { context } => Request::post(
            format!("{base}/decisions"),
            json!({"context": context}).to_string(),
        ),
        Asked::Settle { decision, usage } => Request::post(
            format!("{base}/decisions/{decision}/settlement"),
            json!({"usage": usage}).to_string(),
        ),
        Asked::Release { decision } => Request::post(format!("{base}/decisions/{decision}/release"), "{}"),
        Asked::Skip { steps } => Request::post(format!("{base}/skip"), json!({"steps": steps}).to_string()),
    };
    request.keyed(key).by(secret)
}

/// The address in a `Location` header, if it is one of the nodes.
fn redirected(world: &World, response: &Response) -> Option<SocketAddr> {
    let location = response.header("location")?;
    let authority = location.strip_prefix("http://")?.split('/').next()?;
    let address = authority.parse().ok()?;
    world.nodes.contains(&address).then_some(address)
}

/// A client with a generator of its own.
pub(crate) struct Asker {
    world: Arc<World>,
    client: Client,
    random: ChaCha8Rng,
}

impl Asker {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Self {
        Self {
            world: Arc::clone(world),
            client: Client::new(world.nodes[0], PATIENCE),
            random: ChaCha8Rng::seed_from_u64(world.seed.wrapping_mul(1 << 20).wrapping_add(number)),
        }
    }

    /// Any node.
    fn turn(&mut self) {
        let node = self.random.random_range(0..self.world.nodes.len());
        self.client.turn_to(self.world.nodes[node]);
    }

    /// Sends a request until it is neither unanswered, nor put off, nor sent elsewhere.
    ///
    /// Says how many attempts nobody knows the outcome of.
    async fn insist(&mut self, request: &Request, until: Option<Instant>) -> Option<(Response, usize)> {
        let mut unknown = 0;
        let mut sent_on = 0;
        loop {
            if until.is_some_and(|until| Instant::now() > until) {
                return None;
            }
            let millis = match self.client.send(request).await {
                Ok(response) if response.status == 307 => match redirected(&self.world, &response) {
                    Some(address) if sent_on < 8 => {
                        sent_on += 1;
                        self.client.turn_to(address);
                        continue;
                    }
                    // Two nodes that point at each other: wait until one of them knows better.
                    Some(_) => {
                        sent_on = 0;
                        self.turn();
                        20..200
                    }
                    None => return Some((response, unknown)),
                },
                Ok(response) if matches!(response.status, 429 | 503) => {
                    unknown += usize::from(response.status == 503);
                    self.turn();
                    5..60
                }
                Ok(response) => return Some((response, unknown)),
                Err(_) => {
                    unknown += 1;
                    self.turn();
                    1..40
                }
            };
            let millis = self.random.random_range(millis);
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Asks under a key until there is an answer, and writes the answer down.
    async fn ask(&mut self, account: &Account, key: &str, asked: &Asked) -> Outcome {
        let until = account
            .clock
            .map(|seconds| Instant::now() + Duration::from_secs(seconds) / 2);
        let request = request(&account.name, key, asked, &self.world.secret);
        let Some((response, unknown)) = self.insist(&request, until).await else {
            return Outcome::Unknown;
        };
        let status = response.status;
        match status {
            200..300 => {
                let body = response.text();
                self.world.answered(account, key, asked, status, body.clone());
                Outcome::Answered(body)
            }
            404 if matches!(asked, Asked::Settle { .. } | Asked::Release { .. })
                && account.clock.is_some() =>
            {
                Outcome::Refused {
                    status,
                    certain: false,
                }
            }
            409 => Outcome::Refused {
                status,
                certain: unknown == 0,
            },
            _ => {
                self.world.unexpected(format!(
                    "{}, {asked:?}: {status} {}",
                    account.name,
                    response.text()
                ));
                Outcome::Refused {
                    status,
                    certain: false,
                }
            }
        }
    }

    /// Asks something new, and remembers what can be settled or repeated.
    async fn ask_anew(&mut self, account: &Account, twin: Option<&mut Self>, asked: Asked) {
        let key = self.world.fresh_key();
        let outcome = match twin {
            None => self.ask(account, &key, &asked).await,
            // The same key twice at the same time: one is carried out, and both get its answer.
            Some(twin) => {
                match tokio::join!(self.ask(account, &key, &asked), twin.ask(account, &key, &asked)) {
                    (Outcome::Refused { .. }, other)
                    | (other, Outcome::Refused { .. } | Outcome::Unknown) => other,
                    (one, _) => one,
                }
            }
        };
        match outcome {
            Outcome::Answered(body) => remember(account, key, asked, &body),
            Outcome::Refused { status, certain } => {
                if certain {
                    self.world.refused(account, &key, status);
                }
                if matches!(asked, Asked::Decide { .. } | Asked::Skip { .. }) {
                    account.exhausted.store(true, Ordering::Relaxed);
                    // An account that waits for its next period is not worth the whole machine.
                    let millis = self.random.random_range(2..20);
                    sleep(Duration::from_millis(millis)).await;
                }
            }
            Outcome::Unknown => {}
        }
    }

    fn context(&mut self, account: &Account) -> Vec<f64> {
        let (low, high) = account.bounds;
        (0..account.contexts)
            .map(|_| self.random.random_range(low..high))
            .collect()
    }

    /// One request to one account.
    async fn act(&mut self, account: &Account, twin: &mut Self, repertoire: Repertoire) {
        let oldest = account.gate.read().await;
        let choice = match repertoire {
            Repertoire::Full => self.random.random_range(0..100_u32),
            Repertoire::Naive => self.random.random_range(0..80),
        };
        let fresh = |at: Instant| {
            account
                .clock
                .is_none_or(|clock| at.elapsed() < Duration::from_secs(clock) / 4)
        };
        match choice {
            ..45 => {
                let asked = Asked::Decide {
                    context: self.context(account),
                };
                self.ask_anew(account, None, asked).await;
            }
            45..=79 | 97.. => {
                let open = lock(&account.open).pop_front();
                let Some(open) = open.filter(|open| open.period >= *oldest && fresh(open.at)) else {
                    return;
                };
                let decision = open.decision;
                let asked = if choice >= 97 {
                    Asked::Release { decision }
                } else {
                    // All of it, none of it, or a part with many bits.
                    let share = [0.0, 1.0, self.random.random()][self.random.random_range(0..3)];
                    Asked::Settle {
                        decision,
                        usage: open.held.iter().map(|held| held * share).collect(),
                    }
                };
                self.ask_anew(account, None, asked).await;
            }
            80..=84 => {
                let asked = Asked::Decide {
                    context: self.context(account),
                };
                self.ask_anew(account, Some(twin), asked).await;
            }
            85..=95 => {
                let recent = {
                    let recent = lock(&account.recent);
                    let place = self.random.random_range(0..recent.len().max(1));
                    recent.get(place).cloned()
                };
                let Some(recent) = recent.filter(|recent| recent.period >= *oldest && fresh(recent.at))
                else {
                    return;
                };
                if choice == 85 {
                    self.misuse(account, &recent.key).await;
                } else {
                    let repeated = self.ask(account, &recent.key, &recent.asked).await;
                    if let Outcome::Refused { status, .. } = repeated {
                        let what = format!(
                            "{}: key {} was answered, and is refused: {status}",
                            account.name, recent.key
                        );
                        self.world.unexpected(what);
                    }
                }
            }
            _ => self.ask_anew(account, None, Asked::Skip { steps: 1 }).await,
        }
    }

    /// A key that was used, for another request: it must be refused.
    async fn misuse(&mut self, account: &Account, key: &str) {
        let asked = Asked::Decide {
            context: vec![0.5; account.contexts],
        };
        let request = request(&account.name, key, &asked, &self.world.secret);
        let until = Some(Instant::now() + Duration::from_secs(5));
        if let Some((response, _)) = self.insist(&request, until).await
            && response.status != 422
        {
            let what = format!(
                "{}: key {key} was used, and is answered {}",
                account.name, response.status
            );
            self.world.unexpected(what);
        }
    }

    /// Reads what is new in the log of a period.
    pub(crate) async fn harvest(&mut self, account: &Account, period: u64) {
        loop {
            let from = self
                .world
                .with_history(|history| history.known(&account.name, period));
            let path = format!(
                "/v1/accounts/{}/periods/{period}/entries?from={from}&most=1000",
                account.name
            );
            let request = Request::get(path).by(&self.world.secret);
            let until = account
                .clock
                .map(|seconds| Instant::now() + Duration::from_secs(seconds));
            let Some((response, _)) = self.insist(&request, until).await else {
                return;
            };
            if response.status == 404 && account.clock.is_some() {
                return;
            }
            let lines = lines(&response);
            let Some(lines) = lines.filter(|_| response.status == 200) else {
                let what = format!(
                    "{}: the log of period {period}: {} {}",
                    account.name,
                    response.status,
                    response.text()
                );
                return self.world.unexpected(what);
            };
            if lines.is_empty() {
                return;
            }
            self.world
                .with_history(|history| history.read(&account.name, period, from, lines));
        }
    }

    /// The number of the open period.
    async fn period(&mut self, account: &Account) -> Option<u64> {
        let request = Request::get(format!("/v1/accounts/{}", account.name)).by(&self.world.secret);
        let until = Some(Instant::now() + Duration::from_secs(5));
        let (response, _) = self.insist(&request, until).await?;
        response.json()["period"]["number"].as_u64()
    }
}

/// The lines of an answer: a list, or an object with one.
fn lines(response: &Response) -> Option<Vec<crate::history::Line>> {
    let body = response.json();
    let list = if body.is_array() {
        body
    } else {
        body.get("entries")?.clone()
    };
    serde_json::from_value(list).ok()
}

fn remember(account: &Account, key: String, asked: Asked, body: &str) {
    let at = Instant::now();
    let mut period = account.newest.load(Ordering::Relaxed);
    if let Ok(decision) = serde_json::from_str::<Decision>(body) {
        period = decision.period;
        account.newest.fetch_max(period, Ordering::Relaxed);
        let mut open = lock(&account.open);
        open.push_back(Open {
            decision: decision.name,
            period,
            held: decision.held,
            at,
        });
        // What is forgotten here is never settled: it counts as spent.
        if open.len() > REMEMBERED {
            open.pop_front();
        }
    } else if let Asked::Settle { decision, .. } | Asked::Release { decision } = &asked {
        let named = decision.split('-').next().and_then(|period| period.parse().ok());
        period = named.unwrap_or(period);
    }
    let mut recent = lock(&account.recent);
    recent.push_back(Recent {
        key,
        asked,
        period,
        at,
    });
    if recent.len() > REMEMBERED {
        recent.pop_front();
    }
}

/// A client that acts until the end, all starting at once.
pub(crate) async fn client(world: Arc<World>, number: u64, start: Arc<Barrier>, repertoire: Repertoire) {
    let mut asker = Asker::new(&world, 2 * number);
    let mut twin = Asker::new(&world, 2 * number + 1);
    start.wait().await;
    while !world.is_ending() {
        // The first account is the hot one.
        let account = asker.random.random_range(0..2 * world.accounts.len());
        let account = &world.accounts[account.saturating_sub(world.accounts.len())];
        asker.act(account, &mut twin, repertoire).await;
    }
}

/// Whoever begins the periods of an account on request, or reads along with those by the clock.
pub(crate) async fn keeper(world: Arc<World>, place: usize) {
    let mut asker = Asker::new(&world, 1_000_000 + place as u64);
    let account = &world.accounts[place];
    while !world.is_ending() {
        let pause = asker.random.random_range(100..400);
        sleep(Duration::from_millis(pause)).await;
        if account.clock.is_some() {
            if let Some(period) = asker.period(account).await {
                account.newest.fetch_max(period, Ordering::Relaxed);
            }
            harvest_newest(&mut asker, account).await;
        } else if account.exhausted.load(Ordering::Relaxed) || asker.random.random_range(0..10) == 0 {
            next_period(&mut asker, account).await;
        }
    }
}

/// Reads the newest period and the one before.
pub(crate) async fn harvest_newest(asker: &mut Asker, account: &Account) {
    let newest = account.newest.load(Ordering::Relaxed);
    for period in newest.saturating_sub(1)..=newest {
        asker.harvest(account, period).await;
    }
}

/// Reads to its end the period that the next one makes the service forget, then begins the next.
async fn next_period(asker: &mut Asker, account: &Account) {
    let world = Arc::clone(&asker.world);
    {
        let _calm = world.calm.read().await;
        let mut oldest = account.gate.write().await;
        harvest_newest(asker, account).await;
        *oldest = account.newest.load(Ordering::Relaxed);
    }
    let key = world.fresh_key();
    account.exhausted.store(false, Ordering::Relaxed);
    if let Outcome::Answered(body) = asker.ask(account, &key, &Asked::Open).await {
        let view: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        match view["number"].as_u64() {
            Some(period) => {
                account.newest.fetch_max(period, Ordering::Relaxed);
            }
            None => world.unexpected(format!("{}: a period without a number: {body}", account.name)),
        }
    }
}
