//! The rules of requests: keys, holds, refusals, closed accounts, views.

use std::sync::atomic::Ordering;

use laau_serve::{AccountSpec, Change, Error, Event, GuardSpec};

use super::house::{House, decide, release, settle, spec};

const SHOP: &str = r#"{"name":"shop","policy":{"name":"mw"},"budgets":[10],"horizon":3}"#;

fn shop() -> House {
    let house = House::new();
    house.create(spec(SHOP)).unwrap();
    house
}

#[test]
fn a_new_account_can_decide_at_once_and_its_settings_are_complete() {
    let house = House::new();
    let view = house.create(spec(SHOP)).unwrap();
    assert_eq!(view.spec.problem, Some(laau::registry::ProblemSpec::default()));
    let period = view.period.unwrap();
    assert_eq!(
        (period.number, period.began, period.until),
        (0, house.now(), None)
    );
    assert_eq!((period.budgets, period.step, period.horizon), (vec![10.0], 0, 3));
    assert_eq!(period.multiplier, None);
    let decision = house.decide("shop", "k", &[0.5]).unwrap();
    assert_eq!(
        (decision.decision.to_string().as_str(), decision.step),
        ("0-0", 0)
    );
    assert_eq!(decision.held, decision.action);
    assert!((1.0..=8.0).contains(&decision.action[0]));
    assert_eq!(house.period("shop").multiplier, decision.multiplier);
}

#[test]
fn a_repeated_key_gets_the_first_bytes_and_another_request_does_not() {
    let house = shop();
    let first = house.change("shop", "k", decide(&[0.5])).unwrap();
    assert!(!first.repeated);
    let again = house.change("shop", "k", decide(&[0.5])).unwrap();
    assert!(again.repeated);
    assert_eq!((again.status, again.body), (first.status, first.body));
    for other in [
        decide(&[0.25]),
        release("0-0"),
        Change::Open,
        Change::Skip { steps: 1 },
    ] {
        assert!(matches!(house.change("shop", "k", other), Err(Error::KeyReused)));
    }
    assert_eq!(house.period("shop").step, 1);
    // Another account has keys of its own.
    house.create(spec(&SHOP.replace("shop", "other"))).unwrap();
    assert!(!house.change("other", "k", decide(&[0.25])).unwrap().repeated);
}

#[test]
fn a_refused_request_stores_nothing_and_its_key_may_be_used_again() {
    let house = shop();
    let before = house.view("shop").unwrap();
    for bad in [
        vec![],
        vec![0.1, 0.2],
        vec![f64::NAN],
        vec![f64::INFINITY],
        vec![-0.5],
    ] {
        let error = house.change("shop", "k", decide(&bad)).unwrap_err();
        assert_eq!(error.status(), 422, "{bad:?}: {error}");
    }
    for (change, status) in [
        (settle("0-0", &[1.0]), 404),
        (settle("7-0", &[1.0]), 404),
        (settle("0-00", &[1.0]), 400),
        (release("first"), 400),
        (Change::Skip { steps: 0 }, 400),
        (Change::Skip { steps: 4 }, 409),
    ] {
        let error = house.change("shop", "k", change.clone()).unwrap_err();
        assert_eq!(error.status(), status, "{change:?}: {error}");
    }
    for key in ["", "a b", "ä", &"x".repeat(256)] {
        let error = house.change("shop", key, decide(&[0.5])).unwrap_err();
        assert!(matches!(error, Error::MissingKey), "{key:?}: {error}");
    }
    assert!(matches!(
        house.change("nobody", "k", decide(&[0.5])),
        Err(Error::UnknownAccount { .. })
    ));
    assert_eq!(house.view("shop").unwrap(), before);
    assert_eq!(house.entries("shop", 0).len(), 1);
    assert!(!house.change("shop", "k", decide(&[0.5])).unwrap().repeated);
}

#[test]
fn what_was_held_too_much_returns_once() {
    let house = shop();
    let decision = house.decide("shop", "a", &[0.5]).unwrap();
    let held = decision.held[0];
    let error = house.settle("shop", "b", "0-0", &[held.next_up()]).unwrap_err();
    assert_eq!(error.status(), 422);
    let settled = house.settle("shop", "b", "0-0", &[0.25]).unwrap();
    assert_eq!(
        (settled.settled, settled.returned),
        (vec![0.25], vec![held - 0.25])
    );
    assert_eq!(settled.remaining, [9.75]);
    for change in [settle("0-0", &[0.25]), release("0-0")] {
        let error = house.change("shop", "c", change).unwrap_err();
        assert_eq!(error.to_string(), "decision 0-0 was settled or released before");
        assert_eq!(error.status(), 409);
    }
    house.decide("shop", "d", &[0.5]).unwrap();
    assert!(house.change("shop", "e", release("0-1")).is_ok());
    let period = house.period("shop");
    assert_eq!(
        (period.remaining, period.held, period.holds),
        (vec![9.75], vec![0.0], 0)
    );
}

#[test]
fn past_the_horizon_the_least_is_granted_while_the_budget_lasts() {
    let house = shop();
    for step in 0..3 {
        let decision = house.decide("shop", &format!("k{step}"), &[0.5]).unwrap();
        assert!(!decision.beyond_horizon);
        house
            .settle(
                "shop",
                &format!("s{step}"),
                &decision.decision.to_string(),
                &[2.5],
            )
            .ok();
    }
    let left = house.period("shop").remaining[0];
    let mut granted = 0;
    let error = loop {
        match house.decide("shop", &format!("g{granted}"), &[0.5]) {
            Ok(decision) => {
                assert!(decision.beyond_horizon);
                assert_eq!(
                    (decision.action, decision.held, decision.step),
                    (vec![1.0], vec![1.0], 3)
                );
            }
            Err(error) => break error,
        }
        granted += 1;
    };
    assert_eq!(f64::from(granted), left.floor());
    assert_eq!((error.status(), error.kind()), (409, "exhausted"));
    assert_eq!(house.period("shop").granted, usize::try_from(granted).unwrap());
    // What returns can be granted again.
    house.change("shop", "r", release("0-3")).unwrap();
    assert!(house.decide("shop", "more", &[0.5]).unwrap().beyond_horizon);
}

#[test]
fn steps_that_are_skipped_return_their_reserve() {
    let house = shop();
    let answer = house.change("shop", "s", Change::Skip { steps: 2 }).unwrap();
    let view: laau_serve::PeriodView = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((view.step, view.horizon), (0, 1));
    let decision = house.decide("shop", "k", &[0.5]).unwrap();
    assert_eq!(decision.held, [10.0], "nothing is left to wait for");
}

#[test]
fn a_closed_account_decides_nothing_more_but_can_be_settled() {
    let house = shop();
    house.decide("shop", "a", &[0.5]).unwrap();
    house.decide("shop", "b", &[0.5]).unwrap();
    for _ in 0..2 {
        let view = house.runtime.block_on(house.authority().close("shop")).unwrap();
        assert!(view.closed);
    }
    for change in [decide(&[0.5]), Change::Open, Change::Skip { steps: 1 }] {
        let error = house.change("shop", "c", change).unwrap_err();
        assert_eq!((error.status(), error.kind()), (410, "account-closed"));
    }
    assert!(house.change("shop", "a", decide(&[0.5])).unwrap().repeated);
    assert!(house.settle("shop", "s", "0-0", &[0.5]).is_ok());
    assert!(house.change("shop", "r", release("0-1")).is_ok());
    assert!(matches!(
        house.create(spec(SHOP)),
        Err(Error::AccountClosed { .. })
    ));
}

#[test]
fn the_same_settings_again_are_no_error_and_others_are() {
    let house = shop();
    house.decide("shop", "a", &[0.5]).unwrap();
    let again = house.create(spec(SHOP)).unwrap();
    assert_eq!(again.period.unwrap().step, 1);
    let error = house.create(spec(&SHOP.replace("[10]", "[11]"))).unwrap_err();
    assert!(matches!(error, Error::AccountExists { .. }));
    // What the service completed may be said as well.
    assert!(house.create(house.view("shop").unwrap().spec).is_ok());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let house = House::new();
    for (from, to, status) in [
        ("shop", "", 400),
        ("shop", "Shop", 400),
        ("shop", "../shop", 400),
        ("shop", "-shop", 400),
        ("shop", &"x".repeat(65), 400),
        ("mw", "nobody", 422),
        ("mw", "laau", 422),
        ("[10]", "[2.9]", 422),
        ("[10]", "[10,10]", 422),
        ("[10]", "[-10]", 422),
        ("3}", "0}", 400),
        ("3}", "2000001}", 400),
        (r#","horizon":3"#, "", 400),
        ("3}", r#"3,"period":{"seconds":0}}"#, 400),
        ("3}", r#"3,"guard":{"policy":{"name":"equal"},"level":1.5}}"#, 422),
        (r#"{"name":"mw"}"#, r#"{"file":"../../etc/passwd"}"#, 400),
        (r#"{"name":"mw"}"#, r#"{"file":"none.policy"}"#, 400),
    ] {
        let error = house.create(spec(&SHOP.replace(from, to))).unwrap_err();
        assert_eq!(error.status(), status, "{to}: {error}");
    }
    let all = house.runtime.block_on(house.authority().accounts()).unwrap();
    assert!(all.is_empty());
}

/// Settings of an account with so many actions that share one budget, and so many steps.
fn of_size(name: &str, policy: &str, actions: usize, horizon: usize) -> AccountSpec {
    let budget = 2 * actions * horizon;
    spec(&format!(
        r#"{{"name":"{name}","problem":{{"name":"log-utility","actions":{actions}}},"policy":{{"name":"{policy}"}},
            "budgets":[{budget}],"horizon":{horizon}}}"#
    ))
}

#[test]
fn an_account_that_would_keep_the_others_waiting_is_refused() {
    const MOST: usize = 4096;
    let house = House::new();
    let refused = |spec: AccountSpec| {
        let error = house.create(spec).unwrap_err();
        assert_eq!((error.status(), error.kind()), (422, "account-too-large"));
        error.to_string()
    };
    assert!(house.create(of_size("large", "mw", MOST, 2)).is_ok());
    assert_eq!(
        refused(of_size("x", "mw", MOST + 1, 2)),
        "expected an account of at most 4096 actions times budgets, found 4097 actions and 1 budgets"
    );
    // As many budgets as actions, and no machine with the memory for the matrix.
    let json = r#"{"name":"x","problem":{"name":"vm-allocation","actions":1000000},"policy":{"name":"mw"},"budgets":[1],"horizon":2}"#;
    refused(spec(json));
    // A policy that solves all steps so far in each decision is as large as the period is long, as a guard's incumbent, too.
    assert!(house.create(of_size("long", "mw", 2, 1_000_000)).is_ok());
    assert!(
        house
            .create(of_size("pursuit", "cr-pursuit", 2, MOST / 2))
            .is_ok()
    );
    let reason = refused(of_size("x", "cr-pursuit", 2, MOST / 2 + 1));
    assert!(
        reason.ends_with(
            "looks at all 2049 steps of a period in each decision, so that they are multiplied in"
        ),
        "{reason}"
    );
    let guard = of_size("y", "cr-pursuit", 2, 1);
    let mut guarded = of_size("x", "mw", 2, MOST);
    guarded.guard = Some(GuardSpec {
        policy: guard.policy,
        level: 0.9,
    });
    refused(guarded);
    // For weighted fairness it keeps a sum.
    let json = r#"{"name":"fair","policy":{"name":"cr-pursuit"},"budgets":[3e6],"horizon":1000000}"#;
    assert!(house.create(spec(json)).is_ok());
}

#[test]
fn requests_of_several_accounts_that_arrive_together_share_a_commit() {
    let house = shop();
    house.create(spec(&SHOP.replace("shop", "other"))).unwrap();
    let before = house.shared.commits.load(Ordering::SeqCst);
    let changes = (0..6).map(|number| {
        let account = if number % 2 == 0 { "shop" } else { "other" };
        (account.to_owned(), format!("k{}", number / 2 % 2), decide(&[0.5]))
    });
    let answers = house.together(changes.collect());
    let repeated: Vec<bool> = answers
        .iter()
        .map(|answer| answer.as_ref().unwrap().repeated)
        .collect();
    assert_eq!(
        repeated,
        [false, false, false, false, true, true],
        "the third pair has keys of the first"
    );
    assert_eq!(house.shared.commits.load(Ordering::SeqCst), before + 1);
    assert_eq!((house.period("shop").step, house.period("other").step), (2, 2));
}

#[test]
fn subscribers_hear_of_what_is_durable_in_its_order() {
    let house = shop();
    let mut notices = house.authority().subscribe();
    house.decide("shop", "a", &[0.5]).unwrap();
    house.settle("shop", "b", "0-0", &[0.5]).unwrap();
    house.change("shop", "c", Change::Open).unwrap();
    let heard: Vec<_> = (0..3).map(|_| notices.try_recv().unwrap()).collect();
    assert!(matches!(heard[0].entry.event, Event::Decided { .. }));
    assert!(matches!(heard[1].entry.event, Event::Settled { .. }));
    assert!(matches!(heard[2].entry.event, Event::Opened { .. }));
    assert_eq!((heard[1].period.remaining[0], heard[1].period.holds), (9.5, 0));
    assert_eq!(heard[2].period, house.period("shop"));
    assert!(notices.try_recv().is_err());
}

#[test]
fn a_guarded_account_shows_what_its_guard_kept() {
    let house = House::new();
    let guarded = SHOP.replace("3}", r#"3,"guard":{"policy":{"name":"equal"},"level":0.9}}"#);
    house.create(spec(&guarded)).unwrap();
    for step in 0..3 {
        house
            .decide("shop", &format!("k{step}"), &[0.3 * f64::from(step)])
            .unwrap();
    }
    let certificate = house.period("shop").certificate.unwrap();
    assert!(certificate.margin >= -certificate.allowance);
    assert_eq!(certificate.level, 0.9);
}
