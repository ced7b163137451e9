//! What every store promises.

use laau_serve::store::{Batch, Store, StoreError, Wanted, Write};
use laau_serve::{Entry, Event};

use super::Place;
use super::sample::{api_key, append, batch, entry, numbers, record, write};

/// Every character that the name of an account may have.
const NAME: &str = "0abcdefghijklmnopqrstuvwxyz.123456789_-";

fn is_fenced(outcome: &Result<(), StoreError>, name: &str) -> bool {
    matches!(outcome, Err(StoreError::Fenced { account }) if account == name)
}

pub(super) fn a_new_store_knows_nothing(place: &dyn Place) {
    let mut store = place.open();
    assert!(store.accounts().expect("answers").is_empty());
    assert!(store.keys().expect("answers").is_empty());
    assert_eq!(store.account("nobody").expect("answers"), None);
    assert_eq!(store.file("no-digest").expect("answers"), None);
    assert_eq!(store.entries("nobody", 0, 0, 10).expect("answers"), []);
    assert_eq!(store.by_key("nobody", 0..=1, "key").expect("answers"), None);
    assert!(store.renew().expect("answers").is_empty());
    store.release().expect("answers");
}

pub(super) fn what_was_committed_is_there_after_opening_again(place: &dyn Place) {
    let mut store = place.open();
    let writes = vec![
        Write::Account(record("a", 0)),
        Write::Account(record("b", 0)),
        Write::File {
            digest: "d1".to_owned(),
            bytes: vec![0, 1, 2, 255],
        },
        append("a", entry(0, 0, "first")),
        append("a", entry(0, 1, "second")),
        append("b", entry(0, 0, "first")),
        Write::Key(api_key("k")),
    ];
    write(&mut *store, &["a", "b"], writes);
    let mut changed = record("a", 1);
    changed.closed = true;
    write(&mut *store, &["a"], vec![Write::Account(changed.clone())]);
    drop(store);
    let mut store = place.open();
    assert_eq!(store.accounts().expect("answers"), ["a", "b"]);
    assert_eq!(store.account("a").expect("answers"), Some(changed));
    assert_eq!(store.account("b").expect("answers"), Some(record("b", 0)));
    assert_eq!(store.file("d1").expect("answers"), Some(vec![0, 1, 2, 255]));
    assert_eq!(
        store.entries("a", 0, 0, 10).expect("answers"),
        [entry(0, 0, "first"), entry(0, 1, "second")]
    );
    assert_eq!(
        store.by_key("b", 0..=0, "first").expect("answers"),
        Some(entry(0, 0, "first"))
    );
    assert_eq!(store.keys().expect("answers"), [api_key("k")]);
}

pub(super) fn a_batch_is_written_as_a_whole_or_not_at_all(place: &dyn Place) {
    let mut store = place.open();
    write(
        &mut *store,
        &["a"],
        vec![Write::Account(record("a", 0)), append("a", entry(0, 0, "k0"))],
    );
    // Everything before and after the entry that exists already is refused with it.
    let writes = vec![
        Write::Account(record("a", 7)),
        Write::Account(record("b", 7)),
        Write::File {
            digest: "d".to_owned(),
            bytes: vec![1],
        },
        append("a", entry(0, 1, "k1")),
        Write::Key(api_key("k")),
        append("a", entry(0, 0, "k2")),
        append("b", entry(0, 0, "k3")),
        Write::Forget {
            account: "a".to_owned(),
            before: 1,
        },
    ];
    let refused = batch(&mut *store, &["a", "b"], writes);
    assert!(is_fenced(&store.commit(&refused), "a"));
    let unchanged = |store: &mut dyn Store| {
        assert_eq!(store.accounts().expect("answers"), ["a"]);
        assert_eq!(store.account("a").expect("answers"), Some(record("a", 0)));
        assert_eq!(store.file("d").expect("answers"), None);
        assert_eq!(numbers(store, "a", 0), [0]);
        assert_eq!(numbers(store, "b", 0), [0; 0]);
        assert_eq!(store.by_key("a", 0..=0, "k1").expect("answers"), None);
        assert!(store.keys().expect("answers").is_empty());
    };
    unchanged(&mut *store);
    drop(store);
    unchanged(&mut *place.open());
}

pub(super) fn an_entry_that_exists_already_is_not_written_twice(place: &dyn Place) {
    let mut store = place.open();
    write(&mut *store, &["a"], vec![append("a", entry(3, 0, "x"))]);
    let again = batch(&mut *store, &["a"], vec![append("a", entry(3, 0, "y"))]);
    assert!(is_fenced(&store.commit(&again), "a"));
    let twice = vec![append("a", entry(3, 1, "y")), append("a", entry(3, 1, "z"))];
    let twice = batch(&mut *store, &["a"], twice);
    assert!(is_fenced(&store.commit(&twice), "a"));
    assert_eq!(store.entries("a", 3, 0, 9).expect("answers"), [entry(3, 0, "x")]);
    assert_eq!(store.by_key("a", 3..=3, "y").expect("answers"), None);
}

pub(super) fn a_key_stands_for_one_entry_of_a_period(place: &dyn Place) {
    let mut store = place.open();
    write(&mut *store, &["a"], vec![append("a", entry(0, 0, "x"))]);
    let again = batch(&mut *store, &["a"], vec![append("a", entry(0, 1, "x"))]);
    assert!(is_fenced(&store.commit(&again), "a"));
    // Another account and another period may have it.
    write(
        &mut *store,
        &["a", "b"],
        vec![append("b", entry(0, 0, "x")), append("a", entry(1, 0, "x"))],
    );
    assert_eq!(numbers(&mut *store, "a", 0), [0]);
}

pub(super) fn a_batch_without_the_epoch_of_its_accounts_writes_nothing(place: &dyn Place) {
    let mut store = place.open();
    let good = batch(&mut *store, &["a", "b"], vec![append("a", entry(0, 0, "x"))]);
    for writes in [
        vec![append("c", entry(0, 0, "x"))],
        vec![Write::Account(record("c", 0))],
        vec![Write::Forget {
            account: "c".to_owned(),
            before: 1,
        }],
    ] {
        let mut without = good.clone();
        without.writes.extend(writes);
        assert!(is_fenced(&store.commit(&without), "c"));
    }
    for step in [1, u64::MAX] {
        let mut stale = good.clone();
        stale
            .epochs
            .entry("b".to_owned())
            .and_modify(|epoch| *epoch = epoch.wrapping_add(step));
        assert!(is_fenced(&store.commit(&stale), "b"));
    }
    assert_eq!(numbers(&mut *store, "a", 0), [0; 0]);
    assert!(store.accounts().expect("answers").is_empty());
    store.commit(&good).expect("the epochs are valid");
    assert_eq!(numbers(&mut *store, "a", 0), [0]);
}

pub(super) fn entries_come_in_order_from_a_number_on(place: &dyn Place) {
    let mut store = place.open();
    for part in (0..600_u64).collect::<Vec<_>>().chunks(250) {
        let writes = part
            .iter()
            .map(|&number| append("a", entry(4, number, &format!("k{number}"))));
        write(&mut *store, &["a"], writes.collect());
    }
    write(
        &mut *store,
        &["a"],
        vec![
            append("a", entry(5, 0, "k")),
            append("a", entry(u64::MAX >> 1, 0, "k")),
        ],
    );
    assert_eq!(numbers(&mut *store, "a", 4), (0..600).collect::<Vec<_>>());
    let some = store.entries("a", 4, 255, 3).expect("answers");
    assert_eq!(
        some,
        [255, 256, 257].map(|number| entry(4, number, &format!("k{number}")))
    );
    assert_eq!(store.entries("a", 4, 599, 3).expect("answers").len(), 1);
    assert_eq!(store.entries("a", 4, 600, 3).expect("answers"), []);
    assert_eq!(store.entries("a", 4, u64::MAX, 3).expect("answers"), []);
    assert_eq!(store.entries("a", u64::MAX, 0, 3).expect("answers"), []);
    assert_eq!(store.entries("a", 4, 0, 0).expect("answers"), []);
    assert_eq!(numbers(&mut *store, "a", u64::MAX >> 1), [0]);
    assert_eq!(numbers(&mut *store, "a", 3), [0; 0]);
}

pub(super) fn keys_are_found_in_the_periods_asked_for(place: &dyn Place) {
    let mut store = place.open();
    let without = Entry {
        request: None,
        ..entry(1, 1, "")
    };
    let writes = vec![
        append("a", entry(0, 0, "old")),
        append("a", entry(1, 0, "new")),
        append("a", without.clone()),
        append("a", entry(2, 0, "old")),
    ];
    write(&mut *store, &["a"], writes);
    assert_eq!(
        store.by_key("a", 0..=1, "old").expect("answers"),
        Some(entry(0, 0, "old"))
    );
    assert_eq!(store.by_key("a", 1..=1, "old").expect("answers"), None);
    assert_eq!(
        store.by_key("a", 0..=1, "new").expect("answers"),
        Some(entry(1, 0, "new"))
    );
    assert_eq!(store.by_key("a", 0..=0, "new").expect("answers"), None);
    // The newest, should there be two.
    assert_eq!(
        store.by_key("a", 0..=2, "old").expect("answers"),
        Some(entry(2, 0, "old"))
    );
    assert_eq!(store.by_key("a", 1..=2, "ol").expect("answers"), None);
    assert_eq!(store.by_key("a", 0..=2, "").expect("answers"), None);
    assert_eq!(store.by_key("b", 0..=2, "old").expect("answers"), None);
    assert_eq!(store.entries("a", 1, 1, 1).expect("answers"), [without]);
    let wanted = |account, last, key| Wanted {
        account,
        periods: 0..=last,
        key,
    };
    let all = [
        wanted("a", 1, "none"),
        wanted("a", 1, "new"),
        wanted("b", 1, "new"),
        wanted("a", 9, "old"),
        wanted("a", 1, "new"),
    ];
    let new = Some(entry(1, 0, "new"));
    let found = [None, new.clone(), None, Some(entry(2, 0, "old")), new];
    assert_eq!(store.by_keys(&all).expect("answers"), found);
    assert_eq!(store.by_keys(&[]).expect("answers"), []);
}

pub(super) fn numbers_come_back_to_the_last_bit(place: &dyn Place) {
    let mut store = place.open();
    let odd = vec![
        0.1,
        -0.0,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        1.0 / 3.0,
        2.0_f64.powi(53) + 1.0,
    ];
    let event = Event::Opened {
        at: u64::MAX,
        until: Some(0),
        budgets: odd.clone(),
        horizon: usize::MAX,
    };
    let opened = Entry {
        event,
        ..entry(0, 0, "x")
    };
    write(&mut *store, &["a"], vec![append("a", opened)]);
    let back = store.entries("a", 0, 0, 1).expect("answers");
    let Event::Opened {
        at: u64::MAX,
        until: Some(0),
        budgets,
        horizon: usize::MAX,
    } = &back[0].event
    else {
        panic!("another event: {back:?}");
    };
    assert!(
        budgets
            .iter()
            .map(|number| number.to_bits())
            .eq(odd.iter().map(|number| number.to_bits()))
    );
}

pub(super) fn forgotten_periods_are_gone_and_the_others_stay(place: &dyn Place) {
    let mut store = place.open();
    for period in 0..4 {
        let writes = ["a", "ab"].into_iter().flat_map(|account| {
            (0..5).map(move |number| append(account, entry(period, number, &format!("{period}k{number}"))))
        });
        write(&mut *store, &["a", "ab"], writes.collect());
    }
    write(
        &mut *store,
        &["a"],
        vec![Write::Forget {
            account: "a".to_owned(),
            before: 2,
        }],
    );
    let check = |store: &mut dyn Store| {
        for period in 0..4 {
            let kept = if period < 2 { vec![] } else { vec![0, 1, 2, 3, 4] };
            assert_eq!(numbers(store, "a", period), kept);
            assert_eq!(numbers(store, "ab", period), [0, 1, 2, 3, 4]);
            let found = store.by_key("a", 0..=3, &format!("{period}k4")).expect("answers");
            assert_eq!(found.is_some(), period >= 2);
        }
    };
    check(&mut *store);
    drop(store);
    check(&mut *place.open());
}

pub(super) fn a_long_period_is_forgotten_piece_by_piece(place: &dyn Place) {
    let mut store = place.open();
    for chunk in 0..4 {
        let writes = (chunk * 1000..(chunk + 1) * 1000)
            .map(|number| append("a", entry(0, number, &format!("k{number}"))));
        write(&mut *store, &["a"], writes.collect());
    }
    let writes = vec![
        append("a", entry(1, 0, "k")),
        Write::Forget {
            account: "a".to_owned(),
            before: 1,
        },
    ];
    write(&mut *store, &["a"], writes);
    // Whatever is still to be deleted, nobody sees it.
    assert_eq!(numbers(&mut *store, "a", 0), [0; 0]);
    assert_eq!(store.by_key("a", 0..=1, "k3999").expect("answers"), None);
    drop(store);
    let mut store = place.open();
    for step in 0..100 {
        assert_eq!(numbers(&mut *store, "a", 0), [0; 0]);
        assert_eq!(store.by_key("a", 0..=1, "k3999").expect("answers"), None);
        if step % 2 == 0 {
            assert!(store.renew().expect("answers").is_empty());
        } else {
            write(
                &mut *store,
                &["a"],
                vec![append("a", entry(1, 1 + step, &format!("n{step}")))],
            );
        }
    }
    assert_eq!(numbers(&mut *store, "a", 1).len(), 51);
}

pub(super) fn a_policy_of_20_mb_comes_back(place: &dyn Place) {
    let mut store = place.open();
    let bytes: Vec<u8> = (0..20_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let file = Write::File {
        digest: "big".to_owned(),
        bytes: bytes.clone(),
    };
    write(
        &mut *store,
        &["a"],
        vec![file.clone(), Write::Account(record("a", 0))],
    );
    // The same bytes for another account are stored once.
    write(&mut *store, &["b"], vec![file, Write::Account(record("b", 0))]);
    drop(store);
    let mut store = place.open();
    assert!(store.file("big").expect("answers").as_deref() == Some(&*bytes));
    assert_eq!(store.accounts().expect("answers"), ["a", "b"]);
}

pub(super) fn names_and_keys_of_every_allowed_character_are_kept_apart(place: &dyn Place) {
    let mut store = place.open();
    let long = "z".repeat(64);
    let names = [NAME, &long, "a", "a.", "a.b", "a-b", "a_b", "0", "00", "a0"];
    let visible: String = ('!'..='~').collect();
    let keys = [
        visible.as_str(),
        &visible[1..],
        "'",
        "\"",
        "\\",
        "%",
        "$1",
        "a",
        "A",
        &"k".repeat(255),
    ];
    for name in names {
        let appends = keys
            .iter()
            .enumerate()
            .map(|(number, key)| append(name, entry(0, number as u64, key)));
        let writes = std::iter::once(Write::Account(record(name, 0))).chain(appends);
        write(&mut *store, &[name], writes.collect());
    }
    drop(store);
    let mut store = place.open();
    let mut sorted = names.map(str::to_owned);
    sorted.sort_unstable();
    assert_eq!(store.accounts().expect("answers"), sorted);
    for name in names {
        assert_eq!(store.account(name).expect("answers"), Some(record(name, 0)));
        assert_eq!(numbers(&mut *store, name, 0).len(), keys.len());
        for (number, key) in keys.iter().enumerate() {
            let found = store.by_key(name, 0..=0, key).expect("answers");
            assert_eq!(found, Some(entry(0, number as u64, key)));
        }
        assert_eq!(store.by_key(name, 0..=0, "kk").expect("answers"), None);
    }
}

pub(super) fn api_keys_are_kept_and_revoked(place: &dyn Place) {
    let mut store = place.open();
    let mut changed = api_key("k2");
    let writes = vec![Write::Key(api_key("k1")), Write::Key(changed.clone())];
    store
        .commit(&Batch {
            writes,
            ..Batch::default()
        })
        .expect("keys belong to no account");
    changed.account = None;
    let revoked = |id: &str| Write::RevokeKey { id: id.to_owned() };
    let writes = vec![revoked("k1"), revoked("nobody"), Write::Key(changed.clone())];
    store
        .commit(&Batch {
            writes,
            ..Batch::default()
        })
        .expect("keys belong to no account");
    drop(store);
    assert_eq!(place.open().keys().expect("answers"), [changed]);
}

pub(super) fn a_number_that_is_none_is_refused(place: &dyn Place) {
    let mut store = place.open();
    let event = Event::Granted {
        at: 0,
        context: vec![f64::NAN],
    };
    let writes = vec![
        append("a", entry(0, 0, "x")),
        append(
            "a",
            Entry {
                event,
                ..entry(0, 1, "y")
            },
        ),
    ];
    let refused = batch(&mut *store, &["a"], writes);
    assert!(matches!(store.commit(&refused), Err(StoreError::Damaged { .. })));
    assert_eq!(numbers(&mut *store, "a", 0), [0; 0]);
}

pub(super) fn an_empty_batch_is_no_fault(place: &dyn Place) {
    let mut store = place.open();
    store.commit(&Batch::default()).expect("nothing to do");
    let claimed = batch(&mut *store, &["a"], Vec::new());
    store.commit(&claimed).expect("nothing to do");
}
