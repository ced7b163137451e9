//! The page in a browser, before a service that runs.

use laau_dashboard::browser::{Browser, Look, Tab};
use serde_json::{Value, json};

use crate::place::Place;

const WIDE: Look = Look {
    width: 1280,
    height: 900,
    dark: false,
    still: true,
};

const LIVE: &str = "document.getElementById('status').dataset.state === 'live'";

/// A tab, or a line that says why there is none.
fn tab(test: &str, look: Look) -> Option<Tab> {
    let Some(browser) = Browser::find() else {
        laau::core::conformance::skipped(test, "no Chromium is installed");
        return None;
    };
    let mut tab = browser.tab().unwrap();
    tab.look(look).unwrap();
    Some(tab)
}

fn text(tab: &mut Tab, selector: &str) -> String {
    let found = tab.evaluate(&format!(
        "document.querySelector({})?.innerText ?? ''",
        json!(selector)
    ));
    found.unwrap().as_str().unwrap().to_owned()
}

/// Enters an API key as people do.
fn enter_key(tab: &mut Tab, key: &str) {
    tab.click("#key-button").unwrap();
    tab.wait("document.activeElement.id === 'key'").unwrap();
    tab.evaluate("document.getElementById('key').select()").unwrap();
    tab.write(key).unwrap();
    tab.press("Enter").unwrap();
}

/// Nothing went wrong, and nobody but the service was asked for anything.
fn expect_quiet(tab: &Tab, place: &Place) {
    assert_eq!(tab.errors(), [] as [&str; 0]);
    let own = format!("{}/", place.origin());
    for address in tab.requests() {
        assert!(
            address.starts_with(&own) || address.starts_with("data:"),
            "{address}"
        );
    }
    assert!(tab.requests().len() > 10, "the page and its files were asked for");
}

#[test]
fn a_decision_that_another_program_makes_appears_by_itself() {
    let Some(mut tab) = tab("a_decision_that_another_program_makes_appears_by_itself", WIDE) else {
        return;
    };
    let place = Place::open();
    place.account("shop");
    place.decide("shop", "first");
    tab.go(&place.origin()).unwrap();
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelector('#decisions tbody th')?.innerText === '0-0'")
        .unwrap();
    assert_eq!(text(&mut tab, "#name"), "shop");
    assert!(text(&mut tab, "#accounts").contains("guard 90.0 %"));
    assert!(text(&mut tab, "#tiles").contains("1 of 200"));
    tab.evaluate("globalThis.before = performance.getEntriesByType('resource').length")
        .unwrap();
    for i in 1..5 {
        place.decide("shop", &format!("request-{i}"));
    }
    tab.wait("document.querySelector('#decisions tbody th')?.innerText === '0-4'")
        .unwrap();
    tab.wait("document.querySelector('#tiles').innerText.includes('5 of 200')")
        .unwrap();
    assert!(text(&mut tab, "#guard").contains("90.0 % of equal"));
    assert_eq!(
        tab.evaluate("document.querySelectorAll('#holds tbody tr').length")
            .unwrap(),
        5
    );
    assert_eq!(
        tab.evaluate("document.querySelectorAll('figure polyline.line').length")
            .unwrap(),
        3
    );
    // A settlement shows, too.
    let usage = json!({"usage": [0.25]});
    let (status, body) = place.ask(
        "POST",
        "/v1/accounts/shop/decisions/0-3/settlement",
        "used",
        Some(&usage),
    );
    assert_eq!(status, 200, "{body}");
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 4")
        .unwrap();
    tab.wait("[...document.querySelectorAll('#decisions td')].some((cell) => cell.innerText === '0.25')")
        .unwrap();
    // A period that begins takes over, and the one before can be looked at.
    let (status, body) = place.ask("POST", "/v1/accounts/shop/periods", "next", None);
    assert_eq!(status, 200, "{body}");
    tab.wait("document.getElementById('period').innerText.includes('1 (open)')")
        .unwrap();
    tab.wait("document.querySelector('#tiles').innerText.includes('0 of 200')")
        .unwrap();
    assert_eq!(text(&mut tab, "#period option:last-child"), "0 (over)");
    assert!(text(&mut tab, "#decisions-note").contains("curl -X POST"));
    expect_quiet(&tab, &place);
}

#[test]
fn an_admin_releases_a_hold_and_a_reader_may_not() {
    let Some(mut tab) = tab("an_admin_releases_a_hold_and_a_reader_may_not", WIDE) else {
        return;
    };
    let place = Place::with_keys();
    place.account("shop");
    for key in ["one", "two"] {
        place.decide("shop", key);
    }
    tab.go(&place.origin()).unwrap();
    tab.wait("document.getElementById('status').innerText === 'not authorised'")
        .unwrap();
    assert!(text(&mut tab, "#nothing").contains("laau serve key --store FILE --scope read"));
    enter_key(&mut tab, "laau_wrong_key");
    tab.wait("document.getElementById('nothing').innerText.includes('does not know this key')")
        .unwrap();

    enter_key(&mut tab, &place.key("read"));
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 2")
        .unwrap();
    tab.click("[data-decision='0-0']").unwrap();
    tab.wait("document.getElementById('release-dialog').open")
        .unwrap();
    // Whoever presses Enter at once keeps the hold.
    assert_eq!(
        tab.evaluate("document.activeElement.id").unwrap(),
        "release-cancel"
    );
    tab.click("#release-confirm").unwrap();
    tab.wait("document.getElementById('message').innerText.includes('needs an admin key')")
        .unwrap();
    assert_eq!(
        place.ask("GET", "/v1/accounts/shop", "-", None).1["period"]["holds"],
        2
    );

    enter_key(&mut tab, &place.key("admin"));
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 2")
        .unwrap();
    tab.click("[data-decision='0-0']").unwrap();
    tab.click("#release-cancel").unwrap();
    assert_eq!(
        place.ask("GET", "/v1/accounts/shop", "-", None).1["period"]["holds"],
        2
    );
    tab.click("[data-decision='0-0']").unwrap();
    tab.click("#release-confirm").unwrap();
    tab.wait("document.getElementById('message').innerText.startsWith('Released 0-0')")
        .unwrap();
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 1")
        .unwrap();
    assert_eq!(
        place.ask("GET", "/v1/accounts/shop", "-", None).1["period"]["holds"],
        1
    );
    // The key is this tab's alone, and nowhere in the page.
    assert_eq!(tab.evaluate("Object.keys(localStorage).length").unwrap(), 0);
    assert_eq!(
        tab.evaluate("document.documentElement.outerHTML.includes(sessionStorage.getItem('laau-key'))")
            .unwrap(),
        false
    );
    assert_eq!(tab.evaluate("document.getElementById('key').value").unwrap(), "");
}

#[test]
fn a_service_that_was_away_is_found_again_with_all_that_happened() {
    let Some(mut tab) = tab(
        "a_service_that_was_away_is_found_again_with_all_that_happened",
        WIDE,
    ) else {
        return;
    };
    let mut place = Place::open();
    place.account("shop");
    place.decide("shop", "before");
    tab.go(&place.origin()).unwrap();
    tab.wait(LIVE).unwrap();
    place.stop();
    tab.wait("document.getElementById('status').dataset.state === 'reconnecting'")
        .unwrap();
    place.start();
    place.decide("shop", "after");
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelector('#decisions tbody th')?.innerText === '0-1'")
        .unwrap();
    assert_eq!(
        tab.evaluate("document.querySelectorAll('#decisions tbody tr').length")
            .unwrap(),
        2
    );
}

#[test]
fn pages_that_were_left_keep_no_connection_from_the_one_that_is_seen() {
    let Some(mut tab) = tab(
        "pages_that_were_left_keep_no_connection_from_the_one_that_is_seen",
        WIDE,
    ) else {
        return;
    };
    let place = Place::open();
    place.account("shop");
    place.decide("shop", "one");
    // A browser has six connections for one service, and keeps pages that were left for the way back.
    for visit in 0..9 {
        tab.go(&format!("{}/?{visit}", place.origin())).unwrap();
        tab.wait(LIVE).unwrap();
        tab.wait("document.querySelectorAll('#decisions tbody tr').length === 1")
            .unwrap();
    }
    // The way back: such a page goes on where it was.
    tab.evaluate("history.back()").unwrap();
    tab.wait("location.search === '?7'").unwrap();
    place.decide("shop", "two");
    tab.wait("document.querySelectorAll('#decisions tbody tr').length === 2")
        .unwrap();
    tab.wait(LIVE).unwrap();
}

#[test]
fn the_page_is_used_by_keyboard_alone() {
    let Some(mut tab) = tab("the_page_is_used_by_keyboard_alone", WIDE) else {
        return;
    };
    let place = Place::open();
    for name in ["alpha", "beta", "gamma"] {
        place.account(name);
    }
    place.decide("beta", "one");
    tab.go(&place.origin()).unwrap();
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelectorAll('#accounts li').length === 3")
        .unwrap();
    let focus = "(() => { const node = document.activeElement; const style = getComputedStyle(node); \
                 return [node.id || node.className, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]; })()";
    for wanted in ["skip", "key-button", "theme", "filter", "order", "account-alpha"] {
        tab.press("Tab").unwrap();
        assert_eq!(tab.evaluate(focus).unwrap(), json!([wanted, true]));
    }
    tab.press("ArrowDown").unwrap();
    assert_eq!(tab.evaluate("document.activeElement.id").unwrap(), "account-beta");
    tab.wait("document.getElementById('name').innerText === 'beta'")
        .unwrap();
    tab.press("End").unwrap();
    tab.wait("document.getElementById('name').innerText === 'gamma'")
        .unwrap();
    tab.press("ArrowDown").unwrap();
    tab.press("ArrowUp").unwrap();
    tab.wait("document.getElementById('name').innerText === 'beta'")
        .unwrap();
    assert_eq!(
        tab.evaluate("document.querySelectorAll('[aria-selected=true]').length")
            .unwrap(),
        1
    );
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 1")
        .unwrap();
    // On to the charts, whose values can be read.
    tab.press("Tab").unwrap();
    assert_eq!(tab.evaluate("document.activeElement.id").unwrap(), "period");
    tab.press("Tab").unwrap();
    tab.press("ArrowLeft").unwrap();
    assert!(text(&mut tab, "#chart-remaining .readout").starts_with("Step 1: remaining"));
    // On to the hold; the dialogue takes the focus and gives it back.
    for _ in 0..12 {
        if tab
            .evaluate("document.activeElement.dataset.decision ?? ''")
            .unwrap()
            == "0-0"
        {
            break;
        }
        tab.press("Tab").unwrap();
    }
    tab.press("Enter").unwrap();
    tab.wait("document.getElementById('release-dialog').open")
        .unwrap();
    tab.press("Escape").unwrap();
    tab.wait("!document.getElementById('release-dialog').open")
        .unwrap();
    assert_eq!(
        tab.evaluate("document.activeElement.dataset.decision").unwrap(),
        "0-0"
    );
    expect_quiet(&tab, &place);
}

/// Text against what is behind it, and lines of charts against their card: the least contrast and where it is.
const CONTRAST: &str = r#"(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const channels = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
    const light = (colour) => { const [r, g, b] = [...channels(colour)].slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    const behind = (node) => { for (let at = node; at; at = at.parentElement) { const colour = getComputedStyle(at).backgroundColor; if (channels(colour)[3] === 255) return colour; } return "white"; };
    const seen = (node) => node.checkVisibility() && node.getClientRects().length > 0;
    let texts = { least: Infinity, many: 0 }, lines = { least: Infinity, many: 0 };
    const note = (where, value, node) => { where.many += 1; if (value < where.least) Object.assign(where, { least: value, at: `${node.nodeName} ${node.id || node.getAttribute("class")} ${node.textContent.slice(0, 30)}` }); };
    for (const node of document.querySelectorAll("body *")) {
        if (!seen(node)) continue;
        const style = getComputedStyle(node);
        const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        if (own) note(texts, ratio(node instanceof SVGElement ? style.fill : style.color, behind(node)), node);
        if (node.matches("svg .line, svg .even, svg .acted, .meter .fill, .meter .pace")) note(lines, ratio(node.matches(".meter *") ? style.fill : style.stroke, behind(node)), node);
        if (node.matches("button, input, select")) note(lines, ratio(style.borderColor, behind(node.parentElement)), node);
    }
    return { texts, lines };
})()"#;

#[test]
fn light_and_dark_have_enough_contrast_and_the_switch_changes_them() {
    let Some(mut tab) = tab(
        "light_and_dark_have_enough_contrast_and_the_switch_changes_them",
        WIDE,
    ) else {
        return;
    };
    let place = Place::open();
    place.account("shop");
    for i in 0..10 {
        place.decide("shop", &format!("request-{i}"));
    }
    let mut papers = Vec::new();
    for (dark, switched) in [(false, false), (true, false), (false, true), (true, true)] {
        tab.look(Look { dark, ..WIDE }).unwrap();
        tab.go(&format!("{}/?{dark}{switched}", place.origin())).unwrap();
        tab.wait(LIVE).unwrap();
        tab.wait("document.querySelectorAll('#decisions tbody tr').length === 10")
            .unwrap();
        if switched {
            tab.click("#theme").unwrap();
        }
        let found = tab.evaluate(CONTRAST).unwrap();
        assert!(found["texts"]["many"].as_u64().unwrap() > 60, "{found}");
        assert!(found["texts"]["least"].as_f64().unwrap() >= 4.5, "{found}");
        assert!(found["lines"]["many"].as_u64().unwrap() > 8, "{found}");
        assert!(found["lines"]["least"].as_f64().unwrap() >= 3.0, "{found}");
        papers.push(
            tab.evaluate("getComputedStyle(document.body).backgroundColor")
                .unwrap(),
        );
        // The choice lasts; here it is taken back.
        tab.evaluate("localStorage.clear()").unwrap();
    }
    assert_eq!(papers[0], papers[3]);
    assert_eq!(papers[1], papers[2]);
    assert_ne!(papers[0], papers[1]);
    expect_quiet(&tab, &place);
}

#[test]
fn nothing_is_cut_off_on_a_narrow_screen_and_nothing_moves_unasked() {
    let look = Look {
        width: 360,
        height: 700,
        ..WIDE
    };
    let Some(mut tab) = tab(
        "nothing_is_cut_off_on_a_narrow_screen_and_nothing_moves_unasked",
        look,
    ) else {
        return;
    };
    let place = Place::open();
    place.account(&"a".repeat(64));
    place.decide(&"a".repeat(64), &"k".repeat(255));
    tab.go(&place.origin()).unwrap();
    tab.wait(LIVE).unwrap();
    tab.wait("document.querySelectorAll('#decisions tbody tr').length === 1")
        .unwrap();
    assert_eq!(tab.evaluate("document.documentElement.scrollWidth").unwrap(), 360);
    let release = "(() => { const box = document.querySelector('#holds button').getBoundingClientRect(); return box.right <= 360; })()";
    assert_eq!(tab.evaluate(release).unwrap(), true);
    assert_eq!(tab.evaluate("document.getAnimations().length").unwrap(), 0);
}

#[test]
fn what_programs_send_is_text_and_never_markup() {
    let Some(mut tab) = tab("what_programs_send_is_text_and_never_markup", WIDE) else {
        return;
    };
    let place = Place::open();
    place.account("shop");
    let hostile = "<img/src=x/onerror=document.title='owned'>\"'&amp;";
    place.decide("shop", hostile);
    tab.go(&format!("{}/#%3Cimg%20src=x%3E", place.origin())).unwrap();
    tab.wait("document.querySelectorAll('#holds tbody tr').length === 1")
        .unwrap();
    assert_eq!(text(&mut tab, "#holds tbody td:nth-child(4)"), hostile);
    assert_eq!(
        tab.evaluate("document.querySelectorAll('img').length").unwrap(),
        0
    );
    assert_eq!(tab.evaluate("document.title").unwrap(), "laau: budgets");
    // Were there markup, its scripts would still not run.
    let planted = "(() => { const node = document.createElement('div'); node.innerHTML = '<img src=x onerror=\"document.title = 1\">'; \
                   document.body.append(node); return new Promise((done) => setTimeout(() => done(document.title), 200)); })()";
    assert_eq!(tab.evaluate(planted).unwrap(), "laau: budgets");
}

#[test]
fn thousands_of_decisions_leave_the_page_small() {
    let Some(mut tab) = tab("thousands_of_decisions_leave_the_page_small", WIDE) else {
        return;
    };
    let place = Place::open();
    let spec = json!({"name": "busy", "problem": {"name": "weighted-fairness"}, "policy": {"name": "mw"}, "budgets": [50_000.0], "horizon": 5000});
    assert_eq!(place.ask("POST", "/v1/accounts", "-", Some(&spec)).0, 201);
    for i in 0..3000 {
        let decision = place.decide("busy", &format!("request-{i}"));
        if i % 10 != 0 {
            let (status, body) = place.ask(
                "POST",
                &format!("/v1/accounts/busy/decisions/{decision}/settlement"),
                &format!("settle-{i}"),
                Some(&json!({"usage": [0.5]})),
            );
            assert_eq!(status, 200, "{body}");
        }
    }
    tab.go(&place.origin()).unwrap();
    tab.wait("document.querySelector('#decisions tbody th')?.innerText === '0-2999'")
        .unwrap();
    assert!(text(&mut tab, "#decisions-note").contains("50 of 3,000"));
    assert!(text(&mut tab, "#holds-note").contains("100 of 300"));
    let size = tab
        .evaluate("[document.querySelectorAll('*').length, ...[...document.querySelectorAll('polyline')].map((line) => line.points.length)]")
        .unwrap();
    let sizes: Vec<u64> = size
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    assert!(sizes[0] < 2000, "{sizes:?}");
    assert!(
        sizes[1..].iter().all(|&points| (100..=400).contains(&points)),
        "{sizes:?}"
    );
    // The newest value is the true one.
    let shown = tab
        .evaluate("document.querySelector('#budgets td').innerText")
        .unwrap();
    let (_, account) = place.ask("GET", "/v1/accounts/busy", "-", None);
    let remaining = account["period"]["remaining"][0].as_f64().unwrap();
    let read: f64 = shown.as_str().unwrap().replace(',', "").parse().unwrap();
    assert!((read - remaining).abs() <= 1e-4 * remaining, "{read} {remaining}");
    expect_quiet(&tab, &place);
}

#[test]
fn the_lines_of_an_empty_page_work_as_they_stand() {
    let Some(mut tab) = tab("the_lines_of_an_empty_page_work_as_they_stand", WIDE) else {
        return;
    };
    let run = |line: &Value| {
        std::process::Command::new("sh")
            .args(["-c", line.as_str().unwrap()])
            .output()
            .unwrap()
    };
    if !run(&json!("curl --version")).status.success() {
        laau::core::conformance::skipped(
            "the_lines_of_an_empty_page_work_as_they_stand",
            "curl is not installed",
        );
        return;
    }
    let place = Place::open();
    tab.go(&place.origin()).unwrap();
    let line = tab
        .wait("document.querySelector('#nothing pre')?.textContent")
        .unwrap();
    assert!(line.as_str().unwrap().contains("/v1/accounts"));
    let made = run(&line);
    assert!(
        String::from_utf8_lossy(&made.stdout).contains("\"remaining\""),
        "{made:?}"
    );
    tab.wait("document.getElementById('name').innerText === 'first'")
        .unwrap();
    let line = tab
        .wait("document.querySelector('#decisions-note pre')?.textContent")
        .unwrap();
    let decided = run(&line);
    assert!(
        String::from_utf8_lossy(&decided.stdout).contains("\"decision\""),
        "{decided:?}"
    );
    tab.wait("document.querySelectorAll('#decisions tbody tr').length === 1")
        .unwrap();
    expect_quiet(&tab, &place);
}
