//! Periods: on request, by the clock, with and without rollover, and what is kept of them.

use std::time::Duration;

use laau_serve::{Change, Error, Event};

use super::house::{House, decide, release, settle, spec};

const DAILY: &str = r#"{"name":"day","policy":{"name":"mw"},"budgets":[40],"horizon":10,"rollover":true,"period":{"seconds":100}}"#;

/// A time at which a period by the clock begins.
const DAWN: u64 = 1_700_000_000_000;

fn day() -> House {
    let house = House::new();
    house.set_clock(DAWN);
    house.create(spec(DAILY)).unwrap();
    house
}

#[test]
fn a_period_on_request_follows_with_what_is_left_or_without() {
    for (rollover, expected) in [(false, 10.0), (true, 19.5)] {
        let house = House::new();
        let json = format!(
            r#"{{"name":"shop","policy":{{"name":"mw"}},"budgets":[10],"horizon":3,"rollover":{rollover}}}"#
        );
        house.create(spec(&json)).unwrap();
        house.decide("shop", "a", &[0.5]).unwrap();
        house.settle("shop", "b", "0-0", &[0.5]).unwrap();
        let opened = house.change("shop", "c", Change::Open).unwrap();
        assert_eq!(house.change("shop", "c", Change::Open).unwrap().body, opened.body);
        let period = house.period("shop");
        assert_eq!(
            (period.number, period.step, period.budgets),
            (1, 0, vec![expected])
        );
    }
}

#[test]
fn a_late_settlement_credits_its_own_period_until_it_is_forgotten() {
    let house = House::new();
    house
        .create(spec(
            r#"{"name":"shop","policy":{"name":"mw"},"budgets":[10],"horizon":3,"rollover":true}"#,
        ))
        .unwrap();
    let held = house.decide("shop", "a", &[0.5]).unwrap().held[0];
    house.decide("shop", "b", &[0.5]).unwrap();
    house.change("shop", "open-1", Change::Open).unwrap();
    let before = house.view("shop").unwrap();
    let late = house.settle("shop", "late", "0-0", &[0.5]).unwrap();
    assert_eq!(late.returned, [held - 0.5]);
    assert_eq!(
        house.view("shop").unwrap(),
        before,
        "the open period is not richer for it"
    );
    assert!(house.change("shop", "a", decide(&[0.5])).unwrap().repeated);
    house.change("shop", "open-2", Change::Open).unwrap();
    for change in [settle("0-1", &[0.5]), release("0-1")] {
        let error = house.change("shop", "too-late", change).unwrap_err();
        assert!(matches!(error, Error::UnknownDecision { .. }), "{error}");
    }
    // Its keys are forgotten with it.
    assert!(!house.change("shop", "a", decide(&[0.5])).unwrap().repeated);
    assert!(house.entries("shop", 0).is_empty());
}

#[test]
fn a_period_by_the_clock_begins_with_the_first_decision_after_its_end() {
    let house = day();
    let period = house.period("day");
    assert_eq!((period.began, period.until), (DAWN, Some(DAWN + 100_000)));
    assert!(matches!(
        house.change("day", "o", Change::Open),
        Err(Error::Conflict { .. })
    ));
    house.decide("day", "a", &[0.5]).unwrap();
    house.settle("day", "s", "0-0", &[1.5]).unwrap();
    house.advance(99_999);
    assert_eq!(house.decide("day", "b", &[0.5]).unwrap().period, 0);
    house.settle("day", "t", "0-1", &[1.0]).unwrap();
    house.advance(1);
    let decision = house.decide("day", "c", &[0.5]).unwrap();
    assert_eq!((decision.period, decision.step, decision.horizon), (1, 0, 10));
    let period = house.period("day");
    assert_eq!((period.began, period.budgets), (DAWN + 100_000, vec![77.5]));
}

#[test]
fn slots_that_pass_unused_are_skipped_before_a_decision() {
    let house = day();
    house.advance(35_000);
    let decision = house.decide("day", "a", &[0.5]).unwrap();
    assert_eq!(
        (decision.step, decision.horizon),
        (0, 7),
        "three slots of ten seconds have passed"
    );
    // A second one in the same slot takes the next one's place.
    let decision = house.decide("day", "b", &[0.5]).unwrap();
    assert_eq!((decision.step, decision.horizon), (1, 7));
    house.advance(10_000);
    assert_eq!(house.decide("day", "c", &[0.5]).unwrap().horizon, 7);
    house.advance(30_000);
    let decision = house.decide("day", "d", &[0.5]).unwrap();
    assert_eq!((decision.step, decision.horizon), (3, 6));
    let skipped: Vec<usize> = house
        .entries("day", 0)
        .iter()
        .filter_map(|entry| match entry.event {
            Event::Skipped { steps } => Some(steps),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [3, 1]);
    // A refused decision skips nothing.
    house.advance(20_000);
    let before = house.view("day").unwrap();
    assert!(house.decide("day", "e", &[f64::NAN]).is_err());
    assert_eq!(house.view("day").unwrap(), before);
}

#[test]
fn periods_that_nobody_used_roll_over_without_being_opened_one_by_one() {
    let house = day();
    house.decide("day", "a", &[0.5]).unwrap();
    house.settle("day", "s", "0-0", &[2.5]).unwrap();
    house.advance(400_000 + 5);
    let decision = house.decide("day", "b", &[0.5]).unwrap();
    assert_eq!(decision.period, 1);
    let period = house.period("day");
    assert_eq!(
        (period.began, period.until),
        (DAWN + 400_000, Some(DAWN + 500_000))
    );
    // What is left of the first, three that nobody used, and its own.
    assert_eq!(period.budgets, [37.5 + 3.0 * 40.0 + 40.0]);
}

#[test]
fn a_clock_that_goes_backwards_opens_and_shortens_nothing() {
    let house = day();
    house.advance(150_000);
    house.decide("day", "a", &[0.5]).unwrap();
    let before = house.period("day");
    for now in [DAWN + 99_999, DAWN, 0] {
        house.set_clock(now);
        let decision = house.decide("day", &format!("at-{now}"), &[0.5]).unwrap();
        assert_eq!(decision.period, 1);
    }
    let after = house.period("day");
    assert_eq!(
        (after.number, after.began, after.until),
        (1, before.began, before.until)
    );
    assert_eq!((after.step, after.horizon), (4, before.horizon));
}

#[test]
fn a_period_by_the_clock_begins_while_nobody_asks() {
    let house = House::ticking(Duration::from_millis(1));
    house.set_clock(DAWN);
    house.create(spec(DAILY)).unwrap();
    house.advance(100_000);
    while house.period("day").number == 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.period("day").budgets, [80.0]);
    // Closed accounts stay as they are.
    house.runtime.block_on(house.authority().close("day")).unwrap();
    house.advance(100_000);
    let mut notices = house.authority().subscribe();
    let other = DAILY.replace("day", "other");
    house.create(spec(&other)).unwrap();
    house.advance(100_000);
    while house.period("other").number == 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.period("day").number, 1);
    while let Ok(notice) = notices.try_recv() {
        assert_eq!(notice.account, "other");
    }
}

#[test]
fn many_decisions_over_many_periods_keep_no_more_than_two_periods() {
    const PERIODS: u32 = 100;
    const STEPS: usize = 250;
    let house = House::new();
    let json = format!(
        r#"{{"name":"shop","policy":{{"name":"mw"}},"budgets":[1000],"horizon":{STEPS},"rollover":false}}"#
    );
    house.create(spec(&json)).unwrap();
    for period in 0..PERIODS {
        let changes = (0..STEPS).map(|step| ("shop".to_owned(), format!("{period}-{step}"), decide(&[0.5])));
        for answer in house.together(changes.collect()) {
            assert!(!answer.unwrap().repeated);
        }
        house
            .change("shop", &format!("open-{period}"), Change::Open)
            .unwrap();
    }
    assert_eq!(house.period("shop").number, u64::from(PERIODS));
    let kept: Vec<usize> = (0..=u64::from(PERIODS))
        .map(|period| house.entries("shop", period).len())
        .collect();
    let (last, before) = kept.split_at(kept.len() - 2);
    assert_eq!(before, [STEPS + 1, 1]);
    assert!(last.iter().all(|entries| *entries == 0), "{last:?}");
}
