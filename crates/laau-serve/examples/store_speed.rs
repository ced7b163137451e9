//! How fast a store is: `cargo run --release -p laau-serve --example store_speed -- FILE|postgres://…`
//!
//! Commits of 1, 16 and 256 entries to one account, each durable; then lookups by key and pages of the log.

#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use laau_serve::store::{Batch, Claim, Embedded, Postgres, Store, StoreError, Wanted, Write};
use laau_serve::{Entry, Event, KeyedRequest};

/// How long each part takes.
const PART: Duration = Duration::from_secs(3);

fn main() -> Result<(), StoreError> {
    let place = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "store-speed.laau".to_owned());
    let mut store: Box<dyn Store> = if place.starts_with("postgres") {
        Box::new(Postgres::connect(
            &place,
            "speed",
            "http://127.0.0.1:7171",
            Duration::from_mins(1),
        )?)
    } else {
        Box::new(Embedded::open(&place)?)
    };
    let account = format!("speed-{}", std::process::id());
    let Claim::Owned { epoch } = store.claim(&account)? else {
        return Err(StoreError::Locked);
    };
    let epochs = BTreeMap::from([(account.clone(), epoch)]);
    let mut number = 0;
    for size in [1, 16, 256] {
        let mut times = Vec::new();
        let begin = Instant::now();
        while begin.elapsed() < PART {
            let append = |number| Write::Append {
                account: account.clone(),
                entry: entry(number),
            };
            let writes = (number..number + size).map(append).collect();
            let batch = Batch {
                epochs: epochs.clone(),
                writes,
            };
            let start = Instant::now();
            store.commit(&batch)?;
            times.push(start.elapsed());
            number += size;
        }
        report(&format!("commits of {size}"), &mut times, begin.elapsed(), size);
    }
    read(&mut *store, &account, number)?;
    println!("{number} entries");
    Ok(())
}

fn read(store: &mut dyn Store, account: &str, number: u64) -> Result<(), StoreError> {
    let key = |draw: u64| format!("key-{}", (draw * 7919) % (2 * number));
    let (mut times, mut draw) = (Vec::new(), 0);
    let begin = Instant::now();
    while begin.elapsed() < PART {
        draw += 1;
        let start = Instant::now();
        store.by_key(account, 0..=1, &key(draw))?;
        times.push(start.elapsed());
    }
    report("lookups of 1 key", &mut times, begin.elapsed(), 1);
    times.clear();
    let begin = Instant::now();
    while begin.elapsed() < PART {
        draw += 16;
        let keys: Vec<_> = (draw..draw + 16).map(key).collect();
        let wanted: Vec<_> = keys
            .iter()
            .map(|key| Wanted {
                account,
                periods: 0..=1,
                key,
            })
            .collect();
        let start = Instant::now();
        store.by_keys(&wanted)?;
        times.push(start.elapsed());
    }
    report("lookups of 16 keys", &mut times, begin.elapsed(), 16);
    times.clear();
    let begin = Instant::now();
    while begin.elapsed() < PART {
        draw += 1;
        let start = Instant::now();
        store.entries(account, 0, (draw * 7919) % number, 1000)?;
        times.push(start.elapsed());
    }
    report("pages of 1000 entries", &mut times, begin.elapsed(), 1);
    Ok(())
}

/// An entry as a decision leaves it.
fn entry(number: u64) -> Entry {
    let value = number as f64 / 3.0;
    Entry {
        period: 0,
        number,
        event: Event::Decided {
            at: 1_700_000_000_000 + number,
            context: vec![value; 4],
            action: vec![value; 3],
        },
        request: Some(KeyedRequest {
            key: format!("key-{number}"),
            digest: "ab".repeat(32),
            status: 200,
            answer: format!(
                "{{\"decision\":\"0-{number}\",\"period\":0,\"step\":{number},\"horizon\":1000000,\"action\":[{value},{value},{value}],\
                 \"multiplier\":[{value}],\"held\":[{value}],\"remaining\":[{value}]}}"
            ),
        }),
    }
}

fn report(what: &str, times: &mut [Duration], elapsed: Duration, size: u64) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    println!(
        "{what:22} {rate:9.0} a second, {:9.0} entries; p50 {:7.0} us, p99 {:7.0} us",
        rate * size as f64,
        at(50),
        at(99)
    );
}
