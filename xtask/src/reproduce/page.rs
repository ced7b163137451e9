//! `index.html`: one self-contained page with what was run, the claims, the figures and the tables.

use std::path::Path;

use anyhow::Context;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::claims::{self, Claim, DATA_SETS, Evidence};
use super::manifest::Manifest;
use super::problems::Problems;
use super::report::{self, missing};
use super::samples::Samples;
use super::theory::{self, Tested};
use crate::figures::style::{data_name, policy_name, write};
use crate::figures::tables::{self, Spread, distinct};
use laau_core::statistics::Verdict;
use laau_core::tables::{PolicyRow, TermRow};

/// What each figure shows, by the beginning of its file's name, in the order of the page.
const FIGURES: &[(&str, &str)] = &[
    ("architecture", "The unrolled pipeline (Fig. 1)."),
    (
        "utility_by_horizon",
        "Mean utility per step, mean and range over seeds (Fig. 2).",
    ),
    ("fraction_by_horizon", "The same as a fraction of OPT."),
    (
        "ood",
        "Tested on the default, trained on data shifted by a Wasserstein distance (Fig. 3).",
    ),
    (
        "guard",
        "Behind a guard: the fraction of OPT by the share of the incumbent's gain that is promised (docs/guard.md).",
    ),
    (
        "tsne",
        "Training and testing episodes, embedded by t-SNE (Fig. 4).",
    ),
    ("distribution", "Utility of single episodes at N = 20 (Fig. 5)."),
    (
        "loss",
        "Loss of single episodes against OPT at N = 20, paired and logarithmic: where policies part.",
    ),
    ("rl_vs_laau", "RL and LAAU by horizon (Fig. 6)."),
    ("remaining_budget", "What is left of the budget (Fig. 7)."),
    (
        "online_learning",
        "Average utility by round of Algorithm 2, as a fraction of OPT's (Algorithm 2).",
    ),
    (
        "online_rates",
        "Loss of a round against a model that was trained before, by step size, with fits (Prop. 6.3).",
    ),
    (
        "generalisation",
        "The gap to the best model, and the bound on it (Theorem 6.1, Prop. 6.2).",
    ),
    ("gradients", "Accuracy and cost of gradients (Section 5)."),
    (
        "episode",
        "One test episode of another problem: the offline optimum and LAAU.",
    ),
];

/// Writes the page, and its claims and results in Markdown.
pub(super) fn write_page(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let policies: Vec<PolicyRow> = tables::read(folder)?;
    let evidence = Evidence {
        samples: Samples::read(folder)?,
        guards: tables::read(folder)?,
    };
    let claims = claims::decide(&evidence);
    let tested = theory::tested(folder)?;
    let power = report::power();
    write(&folder.join("power.csv"), report::power_csv(&power).as_bytes())?;
    write(
        &folder.join("report.md"),
        report::markdown(manifest, &claims, &tested, &policies, &power).as_bytes(),
    )?;
    write(&folder.join("claims.md"), report::verdicts(&claims).as_bytes())?;
    let problems = Problems::read(folder)?;
    write(&folder.join("problems.md"), problems.markdown().as_bytes())?;
    let terms: Vec<TermRow> = tables::read(folder)?;
    let contents = Contents {
        claims: &claims,
        tested: &tested,
        policies: &policies,
        problems: &problems,
        terms: &terms,
    };
    let page = page(manifest, &contents, &figures(folder)?);
    write(&folder.join("index.html"), page.into_string().as_bytes())
}

/// A figure of the page: its caption and its drawing.
struct Figure {
    name: String,
    caption: &'static str,
    svg: String,
}

fn figures(folder: &Path) -> anyhow::Result<Vec<Figure>> {
    let folder = folder.join("figures");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    let mut found = Vec::new();
    for (start, caption) in FIGURES {
        for name in names.iter().filter(|name| name.starts_with(start)) {
            let svg = std::fs::read_to_string(folder.join(format!("{name}.svg")))?;
            found.push(Figure {
                name: name.clone(),
                caption,
                svg,
            });
        }
    }
    Ok(found)
}

/// What the page is made of.
struct Contents<'a> {
    claims: &'a [Claim],
    tested: &'a [Tested],
    policies: &'a [PolicyRow],
    problems: &'a Problems,
    terms: &'a [TermRow],
}

fn page(manifest: &Manifest, contents: &Contents<'_>, figures: &[Figure]) -> Markup {
    let Contents {
        claims,
        tested,
        policies,
        problems,
        terms,
    } = *contents;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "laau: the paper's results, run again" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "LAAU: the paper's results, run again" }
                    p {
                        "Learning-assisted algorithm unrolling for online optimisation with strict budgets (AAAI-23). "
                        "Everything on this page was computed by " code { "cargo xtask reproduce" } "."
                    }
                    (what_was_run(manifest))
                    h2 id="claims" { "Claims" }
                    p {
                        (report::RULES.replace('*', "")) " All variants that were run are listed."
                    }
                    (claims_table(claims))
                    (theorems(tested))
                    h2 id="results" { "Results" }
                    (results_table(policies))
                    (problems.markup())
                    (bound_table(terms))
                    h2 id="figures" { "Figures" }
                    @for figure in figures {
                        figure id=(figure.name) {
                            (PreEscaped(&figure.svg))
                            figcaption { (figure.caption) " " code { (figure.name) } }
                        }
                    }
                }
                script { (PreEscaped(SORT)) }
            }
        }
    }
}

fn what_was_run(manifest: &Manifest) -> Markup {
    html! {
        table class="plain" {
            tbody {
                tr { th { "commit" } td { code { (manifest.commit) } } }
                tr { th { "size" } td { (if manifest.quick { "quick (small; not the paper's sizes)" } else { "full (the paper's sizes)" }) } }
                tr { th { "seeds" } td { (manifest.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")) } }
                tr { th { "trace" } td { (manifest.trace.as_deref().unwrap_or("none given: only the embedded workload")) } }
                tr { th { "real data" } td { (manifest.data.as_deref().map_or_else(
                    || format!("none given (--data DIR); skipped: {}", manifest.skipped.join(", ")), str::to_owned)) } }
                tr { th { "experiments" } td { (manifest.experiments.iter().map(|e| format!("{} ({:.0} s)", e.name, e.seconds)).collect::<Vec<_>>().join(", ")) } }
            }
        }
    }
}

fn claims_table(claims: &[Claim]) -> Markup {
    html! {
        table class="sortable" {
            thead { tr { th { "claim" } th { "in" } @for data in DATA_SETS { th { (data_name(data)) } } } }
            tbody {
                @for claim in claims {
                    tr {
                        td { (claim.text) }
                        td { (claim.source) }
                        @for data in DATA_SETS {
                            @match claim.findings.get(data) {
                                Some(finding) => td class=(class(finding.verdict)) {
                                    strong { (finding.verdict) } br; small { (finding.measured) }
                                },
                                None => td { (missing(data)) },
                            }
                        }
                    }
                }
            }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "yes",
        Verdict::DoesNotHold => "no",
        Verdict::Undecided => "open",
    }
}

fn theorems(tested: &[Tested]) -> Markup {
    html! {
        @if !tested.is_empty() {
            h2 id="theorems" { "Theorems of Section 6" }
            table class="sortable" {
                thead { tr { th { "statement" } th { "on" } th { "verdict" } th { "measured" } } }
                tbody {
                    @for row in tested {
                        tr {
                            td { (row.statement) } td { (row.on) }
                            td class=(class(row.finding.verdict)) { strong { (row.finding.verdict) } }
                            td { small { (row.finding.measured) } }
                        }
                    }
                }
            }
        }
    }
}

fn results_table(policies: &[PolicyRow]) -> Markup {
    html! {
        table class="sortable" {
            thead { tr {
                th { "data" } th { "N" } th { "policy" } th { "utility per step" } th { "fraction of OPT" }
                th { "range over seeds" } th { "remaining %" } th { "violations" }
            } }
            tbody {
                @for (data, horizon, policy) in distinct(policies, |row| (row.data.clone(), row.horizon, row.policy.clone())) {
                    @let rows: Vec<&PolicyRow> = policies.iter()
                        .filter(|row| row.data == data && row.horizon == horizon && row.policy == policy).collect();
                    @if let (Some(utility), Some(fraction), Some(left)) = (
                        Spread::of(rows.iter().map(|row| row.utility)),
                        Spread::of(rows.iter().map(|row| row.fraction_of_opt)),
                        Spread::of(rows.iter().map(|row| row.remaining_percent)),
                    ) {
                        tr {
                            td { (data_name(&data)) } td { (horizon) } td { (policy_name(&policy)) }
                            td { (format!("{:.4}", utility.mean)) } td { (format!("{:.4}", fraction.mean)) }
                            td { (format!("{:.4} … {:.4}", fraction.least, fraction.most)) }
                            td { (format!("{:.2}", left.mean)) }
                            td { (rows.iter().map(|row| row.violations).sum::<usize>()) }
                        }
                    }
                }
            }
        }
    }
}

/// The terms of the bound of Theorem 6.1 and Prop. 6.2 as they were measured.
fn bound_table(terms: &[TermRow]) -> Markup {
    html! {
        @if !terms.is_empty() {
            h2 id="bound" { "Terms of the generalisation bound" }
            p { "Mean over seeds; they belong to the figure of the generalisation gap." }
            table class="sortable" {
                thead { tr { th { "term" } th { "data" } th { "model" } th { "N" } th { "episodes n" } th { "value" } } }
                tbody {
                    @for (term, data, model, horizon, episodes) in distinct(terms, |row| {
                        (row.term.clone(), row.data.clone(), row.model.clone(), row.horizon, row.episodes)
                    }) {
                        @let of = terms.iter().filter(|row| row.term == term && row.data == data
                            && row.model == model && row.horizon == horizon && row.episodes == episodes);
                        @if let Some(spread) = Spread::of(of.map(|row| row.value)) {
                            tr {
                                td { (term) } td { (data_name(&data)) } td { (model) } td { (horizon) } td { (episodes) }
                                td { (format!("{:.4}", spread.mean)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .35rem .7rem; text-align: left; vertical-align: top; }
.sortable th { cursor: pointer; user-select: none; } .sortable th::after { content: ' \\2195'; color: #999; }
td.yes strong { color: #00664b; } td.no strong { color: #a33b00; } td.open strong { color: #555; } small { color: #444; }
figure { margin: 2rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #444; } code { font-size: .9em; }
";

/// Sorts the tables.
const SORT: &str = include_str!("sort.js");
