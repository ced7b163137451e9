//! `cargo xtask dashboard`: the history of benchmarks as one page that needs nothing else.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::bench::HISTORY;
use crate::bench::history::{self, Record};
use crate::browser::{Browser, Look};
use crate::peers::Latest;

/// What to draw, and where.
#[derive(Debug, Args)]
pub struct DashboardArgs {
    /// The history [default: benches/bench-history.jsonl]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Where to write the page [default: target/bench/dashboard.html]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the page as a picture, too, with an installed Chromium
    #[arg(long, value_name = "PNG")]
    picture: Option<PathBuf>,
    /// The picture on a dark ground
    #[arg(long, requires = "picture")]
    dark: bool,
}

/// Writes the page.
///
/// # Errors
/// An empty history, or a file that cannot be read or written.
pub fn run(arguments: &DashboardArgs, root: &Path) -> anyhow::Result<()> {
    let path = arguments.history.clone().unwrap_or_else(|| root.join(HISTORY));
    let records = history::read(&path)?;
    ensure!(
        !records.is_empty(),
        "{} has no run: cargo xtask bench",
        path.display()
    );
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| root.join("target/bench/dashboard.html"));
    if let Some(folder) = output.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(&output, page(&records)?.into_string())
        .with_context(|| format!("cannot write {}", output.display()))?;
    println!("{}", output.display());
    if let Some(picture) = &arguments.picture {
        let browser = Browser::find().context("a picture needs Chromium")?;
        let mut tab = browser.tab()?;
        tab.look(Look {
            width: 1280,
            height: 2450,
            dark: arguments.dark,
            still: true,
        })?;
        tab.go_to_file(&output)?;
        tab.screenshot(picture)?;
        println!("{}", picture.display());
    }
    Ok(())
}

fn page(records: &[Record]) -> anyhow::Result<Markup> {
    // Nothing in the data may end the element that holds it.
    let data = serde_json::to_string(records)?.replace('<', "\\u003c");
    let latest = serde_json::to_string(&Latest::of_all(records))?.replace('<', "\\u003c");
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "laau benchmarks" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                h1 { "laau benchmarks" }
                p id="about" {}
                div.tools {
                    label { "machine" select id="machine" {} }
                    label { "measure" select id="measure" {
                        option value="instructions" { "instructions" }
                        option value="latency" { "time" }
                    } }
                    label { "of the samples" select id="value" {
                        option value="low" { "the least" }
                        option value="value" { "the median" }
                    } }
                }
                section id="changes" {
                    h2 { "The latest run against the one before" }
                    p {
                        "Click on a heading to sort, on a row to see its trend. A time between the least and the ninth decile of the runs before is "
                        "noise; instructions have none. " span id="count" {}
                    }
                    div.tools { label { "find" input id="find" type="search" placeholder="train, opt, d=8 …"; } }
                    div.scroll { table {
                        thead { tr {
                            th data-sort="id" { "what" }
                            th data-sort="previous" { "before" }
                            th data-sort="latest" { "latest" }
                            th data-sort="change" { "change" }
                            th data-sort="runs" { "runs" }
                            th { "trend" }
                        } }
                        tbody id="figures" {}
                    } }
                    p { "Trend of " code id="trend-name" {} }
                    div id="trend" {}
                }
                section {
                    h2 { "Growth" }
                    p { "Cost against one size, the others fixed; the latest figure of each. A straight line is a power." }
                    label { "curve" select id="curve" {} }
                    div id="growth" {}
                }
                section {
                    h2 { "Peers" }
                    p { "Time of each, over the time of the fastest of laau; each work measured in turns in one run, the last that measured it." }
                    label { "work" select id="work" {} }
                    div id="peers" {}
                }
                section {
                    h2 { "Training at every size" }
                    p { "How many times laau's time goes into that of the fastest JAX, by size; in the same run." }
                    label { "by" select id="axis" {
                        option { "batch" }
                        option { "width" }
                        option { "N" }
                    } }
                    label { "against" select id="rival" {
                        option value="f64" { "JAX in f64" }
                        option value="f32" { "JAX in f32" }
                        option value="two" { "JAX on two threads, ours on two" }
                        option value="share" { "the peak of multiply-adds" }
                    } }
                    div id="grid" {}
                }
                div id="tip" hidden {}
                script id="history" type="application/json" { (PreEscaped(data)) }
                script id="latest" type="application/json" { (PreEscaped(latest)) }
                script { (PreEscaped(include_str!("page.js"))) }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::history::{Figure, Measure};
    use crate::peers::Comparison;
    use crate::peers::tests::{comparison, timed};

    fn records() -> Vec<Record> {
        let mut first = Record::begin(Path::new("."), "full");
        first.commit = "aaaaaaa</script>".to_owned();
        for (id, low) in [
            ("opt/interior-point/d=4,M=2,N=20", 1e5),
            ("opt/interior-point/d=4,M=2,N=100", 5e5),
            ("opt/interior-point/d=4,M=2,N=200", 1e6),
            ("train/fused/N=20,batch=10,width=10", 1e4),
        ] {
            first.figures.push(Figure {
                id: id.to_owned(),
                measure: Measure::Latency,
                value: 1.1 * low,
                low,
                high: 1.3 * low,
            });
        }
        first.figures.push(Figure {
            id: "train/fused/N=20,batch=10,width=10".to_owned(),
            measure: Measure::Instructions,
            value: 4321.0,
            low: 4321.0,
            high: 4321.0,
        });
        let mut second = first.clone();
        second.commit = "bbbbbbb".to_owned();
        second.figures[3].low *= 1.5;
        second.figures[1].low *= 0.5;
        second.figures[2].low *= 1.2;
        second.peers = Some(comparison());
        // The last comparison is of a part of the works: the others stay.
        let mut third = Record::begin(Path::new("."), "peers");
        third.commit = "ccccccc".to_owned();
        let mut found = Comparison::default();
        for (batch, ours) in [(10, 10.0), (100, 80.0)] {
            for width in 1..=7 {
                let work = format!("grid/N=20,batch={batch},width={width}");
                found.cases.push(timed("laau", &work, "fused engine", ours, 0.0));
                found
                    .cases
                    .push(timed("jax", &work, "hand-written adjoint, sum", 5.0 * ours, 0.0));
            }
        }
        third.peers = Some(found);
        vec![first, second, third]
    }

    const PROBE: &str = r##"
        const text = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
        const set = (id, value, event) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event(event, { bubbles: true })); };
        const out = { instructionsFirst: document.getElementById("measure").value };
        set("measure", "latency", "change");
        Object.assign(out, { first: text("#figures tr td.name"), changes: text("#figures td:nth-child(4)") });
        document.querySelector("th[data-sort=id]").click();
        out.byName = text("#figures tr td.name");
        document.querySelector("th[data-sort=id]").click();
        out.byNameDown = text("#figures tr td.name");
        document.querySelector("#figures tr:last-child").click();
        out.trend = [text("#trend-name")[0], document.querySelectorAll("#trend circle").length];
        set("find", "FUSED", "input");
        out.found = text("#figures tr td.name");
        set("find", "", "input");
        out.curve = [document.getElementById("curve").value, text("#growth .legend span")[0], document.querySelectorAll("#growth circle").length];
        out.peers = text("#peers svg text.strong").slice(0, 4);
        set("work", "layer-8x3", "change");
        out.layer = text("#peers svg text.strong");
        out.strict = text("#strict tbody tr td");
        out.missing = text("#peers p")[0];
        out.grid = [text("#grid .legend span")[0], document.querySelectorAll("#grid circle").length];
        out.looks = [...document.querySelectorAll("#grid > svg path")].map((p) => `${p.getAttribute("stroke")} ${p.getAttribute("stroke-dasharray")}`);
        document.querySelector("#peers rect").dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 5, clientY: 5 }));
        out.tip = [document.getElementById("tip").hidden, document.getElementById("tip").textContent];
        set("measure", "instructions", "change");
        out.instructions = text("#figures tr td");
        return out;"##;

    #[test]
    fn the_page_works_in_a_browser_and_asks_nobody_for_anything() {
        let Some(browser) = Browser::find() else {
            laau_core::conformance::skipped(
                "the_page_works_in_a_browser_and_asks_nobody_for_anything",
                "no Chromium is installed",
            );
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dashboard.html");
        std::fs::write(&path, page(&records()).unwrap().into_string()).unwrap();
        let mut tab = browser.tab().unwrap();
        tab.go_to_file(&path).unwrap();
        let answer = tab.evaluate(&format!("(() => {{ {PROBE} }})()")).unwrap();
        assert_eq!(tab.errors(), [] as [&str; 0]);
        assert_eq!(tab.requests_outside(), [] as [&str; 0]);
        assert_eq!(answer["first"][0], "train/fused/N=20,batch=10,width=10");
        assert_eq!(answer["changes"][0], "+50.0 % slower");
        assert_eq!(answer["changes"][1], "+20.0 % noise");
        assert_eq!(answer["changes"][3], "-50.0 % faster");
        assert_eq!(answer["instructionsFirst"], "instructions");
        assert_eq!(answer["grid"], serde_json::json!(["N=20, width=1", 14]));
        let looks: BTreeSet<&str> = (answer["looks"].as_array().unwrap().iter())
            .filter_map(|look| look.as_str())
            .collect();
        assert_eq!(looks.len(), 7, "lines that look alike: {looks:?}");
        assert_eq!(answer["byName"][0], "opt/interior-point/d=4,M=2,N=100");
        assert_eq!(answer["byNameDown"][0], "train/fused/N=20,batch=10,width=10");
        assert_eq!(
            answer["trend"],
            serde_json::json!(["opt/interior-point/d=4,M=2,N=100", 2])
        );
        assert_eq!(
            answer["found"],
            serde_json::json!(["train/fused/N=20,batch=10,width=10"])
        );
        assert_eq!(answer["curve"][0], "opt/interior-point by N");
        // The newest run: ln 12 / ln 10.
        assert_eq!(answer["curve"][1], "d=4, M=2: exponent 1.08 in the upper half");
        assert_eq!(answer["curve"][2], 3);
        assert_eq!(
            answer["peers"],
            serde_json::json!([
                "laau: fused engine, f64",
                "1.0×",
                "jax: hand-written adjoint, f64",
                "4.9×"
            ])
        );
        assert_eq!(answer["layer"][5], "800×");
        assert_eq!(answer["strict"][1], "0 of 30");
        assert!(
            answer["missing"].as_str().unwrap().contains(
                "Measured at bbbbbbb. Not measured: moreau (installation): no matching distribution (bbbbbbb)"
            ),
            "{}",
            answer["missing"]
        );
        assert_eq!(answer["tip"][0], false);
        assert!(answer["tip"][1].as_str().unwrap().contains("µs least"));
        assert_eq!(answer["instructions"][2], "4.32 k");
    }

    #[test]
    fn data_cannot_end_its_element() {
        let text = page(&records()).unwrap().into_string();
        assert!(text.contains("aaaaaaa\\u003c/script>") && !text.contains("aaaaaaa</script>"));
        assert!(!text.contains("http://") && !text.contains("https://"));
    }
}
