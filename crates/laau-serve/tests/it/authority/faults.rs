//! Stores that fail, crashes, other nodes, and logs that do not give their state again.

use laau_serve::store::{Batch, Claim, Embedded, Store as _, StoreError, Write};
use laau_serve::{Authority, AuthorityOptions, Change, Entry, Error, Event};

use super::house::{Fault, House, OTHER_NODE, decide, release, settle, spec};
use crate::watched::{Call, Watch, Watched};

const SHOP: &str = r#"{"name":"shop","policy":{"name":"mw"},"budgets":[10],"horizon":4,"rollover":true}"#;

fn shop() -> House {
    let house = House::new();
    house.create(spec(SHOP)).unwrap();
    house.decide("shop", "a", &[0.5]).unwrap();
    house
}

#[test]
fn a_commit_that_wrote_nothing_leaves_nothing_behind() {
    let house = shop();
    let before = house.view("shop").unwrap();
    house.shared.set(Fault::Before);
    let error = house.change("shop", "b", decide(&[0.5])).unwrap_err();
    assert_eq!((error.status(), error.kind()), (503, "store"));
    assert!(error.retry_after().is_some());
    assert_eq!(house.view("shop").unwrap(), before);
    let retried = house.change("shop", "b", decide(&[0.5])).unwrap();
    assert!(!retried.repeated);
}

#[test]
fn a_commit_that_was_written_but_failed_is_found_by_its_key() {
    let house = shop();
    house.shared.set(Fault::After);
    assert_eq!(
        house.change("shop", "b", decide(&[0.5])).unwrap_err().status(),
        503
    );
    let retried = house.change("shop", "b", decide(&[0.5])).unwrap();
    assert!(retried.repeated, "it is not decided twice");
    assert_eq!(house.period("shop").step, 2);
}

#[test]
fn a_batch_that_fails_takes_every_answer_with_it() {
    let house = shop();
    house.create(spec(&SHOP.replace("shop", "other"))).unwrap();
    let views = [house.view("shop").unwrap(), house.view("other").unwrap()];
    house.shared.set(Fault::Before);
    let changes = [
        ("shop", "b", decide(&[0.5])),
        ("other", "b", decide(&[0.5])),
        ("shop", "c", settle("0-1", &[0.5])),
        ("shop", "b", decide(&[0.5])),
        ("shop", "d", decide(&[])),
    ];
    let changes = changes.map(|(account, key, change)| (account.to_owned(), key.to_owned(), change));
    for answer in house.together(changes.into()) {
        assert_eq!(answer.unwrap_err().status(), 503);
    }
    assert_eq!([house.view("shop").unwrap(), house.view("other").unwrap()], views);
}

#[test]
fn the_batch_that_forgets_a_key_still_knows_it_though_a_lookup_failed() {
    for fault in [Fault::None, Fault::Lookup] {
        let house = shop();
        let first = house.change("shop", "first", decide(&[0.7])).unwrap();
        house.change("shop", "o", Change::Open).unwrap();
        house.shared.set(fault);
        let changes = [("p", Change::Open), ("first", decide(&[0.7]))];
        let changes = changes.map(|(key, change)| ("shop".to_owned(), key.to_owned(), change));
        let answers = house.together(changes.into());
        let again = answers[1].as_ref().unwrap();
        assert_eq!((again.repeated, &again.body), (true, &first.body), "{fault:?}");
        assert_eq!(house.period("shop").step, 0);
    }
}

#[test]
fn an_account_that_was_not_written_does_not_exist() {
    let house = House::new();
    house.shared.set(Fault::Before);
    assert_eq!(house.create(spec(SHOP)).unwrap_err().status(), 503);
    assert!(matches!(house.view("shop"), Err(Error::UnknownAccount { .. })));
    house.shared.set(Fault::After);
    assert_eq!(house.create(spec(SHOP)).unwrap_err().status(), 503);
    assert_eq!(house.create(spec(SHOP)).unwrap().period.unwrap().number, 0);
}

#[test]
fn an_account_that_another_node_took_over_is_served_there() {
    let house = shop();
    house.shared.set(Fault::Elsewhere);
    // In memory it is still ours, until a commit is refused.
    assert_eq!(
        house.change("shop", "b", decide(&[0.5])).unwrap_err().status(),
        503
    );
    let error = house.change("shop", "b", decide(&[0.5])).unwrap_err();
    assert!(
        matches!(&error, Error::Elsewhere { address, .. } if address == OTHER_NODE),
        "{error}"
    );
    assert_eq!(error.status(), 307);
    let all = house.runtime.block_on(house.authority().accounts()).unwrap();
    assert_eq!((all.len(), &all[0].period), (1, &None));
    // It comes back.
    house.shared.set(Fault::None);
    assert!(!house.change("shop", "b", decide(&[0.5])).unwrap().repeated);
    assert_eq!(house.period("shop").step, 2);
}

#[test]
fn a_restart_gives_the_same_views_and_the_same_answers() {
    let mut house = shop();
    house.decide("shop", "b", &[0.9]).unwrap();
    house.settle("shop", "s", "0-0", &[0.125]).unwrap();
    house.change("shop", "r", release("0-1")).unwrap();
    house.change("shop", "k", Change::Skip { steps: 1 }).unwrap();
    house.change("shop", "o", Change::Open).unwrap();
    let decided = house.change("shop", "c", decide(&[0.7])).unwrap();
    let view = house.view("shop").unwrap();
    house.stop();
    house.start();
    assert_eq!(house.view("shop").unwrap(), view);
    let again = house.change("shop", "c", decide(&[0.7])).unwrap();
    assert_eq!((again.repeated, again.body), (true, decided.body));
    house.crash();
    house.start();
    assert_eq!(house.view("shop").unwrap(), view);
    // It goes on as it would have gone on.
    house.decide("shop", "d", &[0.2]).unwrap();
}

/// Adds a line to the log of the shop behind the authority's back.
fn forge(house: &House, entry: Entry) {
    let mut store = Embedded::open(house.file()).unwrap();
    let Claim::Owned { epoch } = store.claim("shop").unwrap() else {
        panic!("a file has no other owner");
    };
    let account = "shop".to_owned();
    let batch = Batch {
        epochs: [(account.clone(), epoch)].into(),
        writes: vec![Write::Append { account, entry }],
    };
    store.commit(&batch).unwrap();
}

fn entry(number: u64, event: Event) -> Entry {
    Entry {
        period: 0,
        number,
        event,
        request: None,
    }
}

#[test]
fn an_account_whose_log_says_otherwise_is_not_served() {
    let decided = |action: f64| Event::Decided {
        at: 0,
        context: vec![0.5],
        action: vec![action],
    };
    for (number, event, word) in [
        (2, decided(1.25), "another version or kind of machine decided it"),
        (3, decided(1.25), "an entry before it is missing"),
        (
            2,
            Event::Released {
                hold: laau::core::HoldId::new(9),
            },
            "no decision 0-9",
        ),
        (2, Event::Skipped { steps: 9 }, "the episode is over"),
    ] {
        let mut house = shop();
        house.create(spec(&SHOP.replace("shop", "other"))).unwrap();
        house.stop();
        forge(&house, entry(number, event));
        house.start();
        let rests = [(); 2].map(|()| {
            let error = house.change("shop", "b", decide(&[0.5])).unwrap_err();
            assert_eq!((error.status(), error.kind()), (503, "unplayable"));
            assert!(error.to_string().contains(word), "{error}");
            error.retry_after().unwrap()
        });
        // It is tried again after a rest, and whoever asks is told how much of it is left.
        assert_eq!(rests[0].as_secs(), 30);
        assert!(rests[1] <= rests[0] && !rests[1].is_zero(), "{rests:?}");
        // The others are.
        assert!(house.decide("other", "b", &[0.5]).is_ok());
        let all = house.runtime.block_on(house.authority().accounts()).unwrap();
        assert_eq!(all.iter().filter(|view| view.period.is_some()).count(), 1);
    }
}

#[test]
fn a_store_that_does_not_answer_starts_nothing() {
    struct Away;
    impl Watch for Away {
        fn before(&mut self, _: Call<'_>) -> Result<(), StoreError> {
            Err(StoreError::Unavailable {
                reason: "away".to_owned(),
            })
        }
    }
    let folder = tempfile::TempDir::new().unwrap();
    let store = Embedded::open(folder.path().join("store.laau")).unwrap();
    let started = Authority::start(Box::new(Watched(store, Away)), AuthorityOptions::default());
    assert!(matches!(
        started,
        Err(Error::Store(StoreError::Unavailable { .. }))
    ));
}
