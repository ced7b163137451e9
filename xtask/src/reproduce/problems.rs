//! The other problems: one table each, and whether LAAU beats the simple policies there.

use std::fmt::Write as _;
use std::path::Path;

use laau_core::statistics::{Difference, Verdict, decide};
use laau_core::tables::{BudgetRow, LeftOutRow, ProblemRow};
use maud::{Markup, html};

use super::claims::{needed, words};
use super::samples::Samples;
use crate::figures::problems::names;
use crate::figures::style::policy_name;
use crate::figures::tables::{self, Spread, distinct};

/// The policies that LAAU is held against on every problem; `equal` is the static split.
const RIVALS: &[&str] = &["dgd", "mw", "avg-lt", "equal"];

/// The models that are held against them.
const MODELS: &[&str] = &["laau", "laau-history", "laau-residual"];

/// All that was measured on the other problems.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    rows: Vec<ProblemRow>,
    budgets: Vec<BudgetRow>,
    left_out: Vec<LeftOutRow>,
    samples: Samples,
}

impl Problems {
    /// Reads the tables of a reproduction; there may be none.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            rows: tables::read(folder)?,
            budgets: tables::read(folder)?,
            left_out: tables::read(folder)?,
            samples: Samples::read(folder)?,
        })
    }

    /// Every problem, on its workload and on real data.
    fn each(&self) -> impl Iterator<Item = Summary<'_>> {
        let mut keys = distinct(&self.rows, |row| (row.problem.clone(), row.data.clone()));
        // The real data of a problem stand beside its workload.
        keys.sort_by_key(|(problem, data)| (problem.clone(), data != "workload", data.clone()));
        keys.into_iter().map(|(problem, data)| Summary {
            rows: (self.rows.iter())
                .filter(|row| row.problem == problem && row.data == data)
                .collect(),
            all: self,
            problem,
            data,
        })
    }

    /// The tables of one problem side by side, for its page: a row per policy, a column per data set.
    pub(crate) fn page_table(&self, problem: &str) -> String {
        let summaries: Vec<Summary<'_>> = self.each().filter(|summary| summary.problem == problem).collect();
        if summaries.is_empty() {
            return String::new();
        }
        let mut policies: Vec<String> = Vec::new();
        for summary in &summaries {
            for policy in distinct(&summary.rows, |row| row.policy.clone()) {
                if !policies.contains(&policy) && policy != "opt" {
                    policies.push(policy);
                }
            }
        }
        let fraction = |summary: &Summary<'_>, policy: &str| {
            Spread::of(summary.of(policy).map(|row| row.fraction_of_opt)).map(|spread| spread.mean)
        };
        let rank = |policy: &str| {
            summaries
                .first()
                .and_then(|summary| fraction(summary, policy))
                .unwrap_or(f64::MIN)
        };
        policies.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        let heads: Vec<String> = summaries
            .iter()
            .map(|summary| data_words(&summary.data).to_owned())
            .collect();
        let mut lines = vec![
            format!("| fraction of OPT | {} |", heads.join(" | ")),
            format!("|---|{}", "---|".repeat(heads.len())),
        ];
        for policy in &policies {
            let cells: Vec<String> = summaries
                .iter()
                .map(|summary| {
                    fraction(summary, policy).map_or("–".to_owned(), |value| format!("{value:.4}"))
                })
                .collect();
            lines.push(format!("| {} | {} |", policy_name(policy), cells.join(" | ")));
        }
        let mut text = lines.join("\n") + "\n\nLAAU's lead in points of OPT, with its 95 % interval:\n\n";
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| against | {} |\n|---|{}",
            heads.join(" | "),
            "---|".repeat(heads.len())
        );
        for rival in RIVALS {
            let cells: Vec<String> = summaries
                .iter()
                .map(|summary| summary.duel("laau", rival))
                .collect();
            let _ = writeln!(text, "| {} | {} |", policy_name(rival), cells.join(" | "));
        }
        text
    }

    /// The section of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            @if !self.rows.is_empty() {
                h2 id="problems" { "Other problems" }
                p {
                    "Several actions, several budgets, usage that is not linear. Differences are in points (hundredths of OPT), "
                    "paired, with 95 % intervals over seeds, series and episodes."
                }
            }
            @for summary in self.each() {
                h3 id=(format!("problem-{}-{}", summary.problem, summary.data)) { (summary.title()) }
                p { (summary.statement()) }
                table {
                    thead { tr { @for head in summary.head() { th { (head) } } } }
                    tbody { @for row in summary.table() { tr { @for cell in row { td { (cell) } } } } }
                }
                @for sentence in summary.left_out() { p { (sentence) } }
                table {
                    thead { tr { th { "against" } @for rival in RIVALS { th { (policy_name(rival)) } } } }
                    tbody { @for row in summary.duels() { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }

    /// The same for documents.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        for summary in self.each() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "## {}\n\n{}\n", summary.title(), summary.statement());
            let head = summary.head();
            text += &line(&head);
            let _ = writeln!(text, "|{}", "---|".repeat(head.len()));
            summary.table().iter().for_each(|row| text += &line(row));
            for sentence in summary.left_out() {
                let _ = write!(text, "\n{sentence}\n");
            }
            let mut head = vec!["against".to_owned()];
            head.extend(RIVALS.iter().map(|rival| policy_name(rival).to_owned()));
            let _ = writeln!(text, "\n{}|{}", line(&head), "---|".repeat(head.len()));
            summary.duels().iter().for_each(|row| text += &line(row));
            text.push('\n');
        }
        text
    }
}

/// A lead with its interval and verdict, and how many seeds would decide it.
fn judged(lead: &Difference) -> String {
    let figures = words("", lead);
    match decide(std::slice::from_ref(lead)) {
        Some(Verdict::Undecided) => {
            format!("{figures} undecided ({})", needed(std::slice::from_ref(lead)))
        }
        Some(verdict) => format!("{figures} {verdict}"),
        None => figures,
    }
}

/// The name of a data set of a problem in tables.
fn data_words(data: &str) -> &str {
    match data {
        "workload" => "workload",
        "carbon" => "real: other grids, other year",
        "carbon-same" => "real: grids and years mixed",
        "radio" => "real: other drives",
        "radio-same" => "real: drives mixed",
        "prices" => "real: later years",
        "prices-same" => "real: years mixed",
        "llm" => "real: later minutes",
        "llm-same" => "real: minutes mixed",
        other => other,
    }
}

/// One problem on one data set.
struct Summary<'a> {
    problem: String,
    data: String,
    rows: Vec<&'a ProblemRow>,
    all: &'a Problems,
}

impl Summary<'_> {
    fn title(&self) -> String {
        let title = names(&self.problem).map_or(self.problem.as_str(), |names| names.title);
        let first = self.rows[0];
        let seeds = distinct(&self.rows, |row| row.seed).len();
        format!(
            "{title}, {} (N = {}, {} steps, {seeds} seeds)",
            data_words(&self.data),
            first.horizon,
            first.construction
        )
    }

    fn of(&self, policy: &str) -> impl Iterator<Item = &&ProblemRow> {
        self.rows.iter().filter(move |row| row.policy == policy)
    }

    fn head(&self) -> Vec<String> {
        let mut head: Vec<String> = [
            "policy",
            "utility per step",
            "fraction of OPT",
            "range over seeds",
        ]
        .map(str::to_owned)
        .into();
        head.extend(
            self.budgets()
                .into_iter()
                .map(|budget| format!("{budget} left %")),
        );
        head.extend(["violations", "exact / approximate gradients"].map(str::to_owned));
        head
    }

    /// The names of the budgets.
    fn budgets(&self) -> Vec<String> {
        let rows: Vec<&BudgetRow> = self
            .all
            .budgets
            .iter()
            .filter(|row| row.problem == self.problem && row.data == self.data)
            .collect();
        let known = names(&self.problem).map_or(&[][..], |names| names.budgets);
        distinct(&rows, |row| row.budget)
            .into_iter()
            .map(|budget| {
                known
                    .get(budget)
                    .map_or_else(|| format!("budget {budget}"), |name| (*name).to_owned())
            })
            .collect()
    }

    /// A row per policy, the best first.
    fn table(&self) -> Vec<Vec<String>> {
        let mut policies: Vec<(String, Spread, Spread)> = distinct(&self.rows, |row| row.policy.clone())
            .into_iter()
            .filter_map(|policy| {
                let fraction = Spread::of(self.of(&policy).map(|row| row.fraction_of_opt))?;
                let utility = Spread::of(self.of(&policy).map(|row| row.utility))?;
                Some((policy, fraction, utility))
            })
            .collect();
        policies.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        policies
            .iter()
            .map(|(policy, fraction, utility)| {
                let mut cells = vec![
                    policy_name(policy).to_owned(),
                    format!("{:.4}", utility.mean),
                    format!("{:.4}", fraction.mean),
                    format!("{:.4} … {:.4}", fraction.least, fraction.most),
                ];
                for budget in 0..self.budgets().len() {
                    let left = self.all.budgets.iter().filter(|row| {
                        row.problem == self.problem
                            && row.data == self.data
                            && row.policy == *policy
                            && row.budget == budget
                    });
                    let left = Spread::of(left.map(|row| row.remaining_percent));
                    cells.push(left.map_or("–".to_owned(), |left| format!("{:.2}", left.mean)));
                }
                cells.push(
                    self.of(policy)
                        .map(|row| row.violations)
                        .sum::<usize>()
                        .to_string(),
                );
                let counts = |count: fn(&ProblemRow) -> Option<u64>| -> Option<u64> {
                    self.of(policy).map(|row| count(row)).sum()
                };
                let gradients =
                    counts(|row| row.exact_gradients).zip(counts(|row| row.approximate_gradients));
                cells.push(gradients.map_or("–".to_owned(), |(exact, approximate)| {
                    format!("{exact} / {approximate}")
                }));
                cells
            })
            .collect()
    }

    /// The lead of one policy over another in points of OPT.
    fn lead(&self, policy: &str, rival: &str) -> Option<Difference> {
        let data = format!("{}:{}", self.problem, self.data);
        let cell = self.all.samples.cells().iter().find(|cell| cell.data == data)?;
        cell.lead(policy, rival)
    }

    /// The lead with its interval and verdict.
    fn duel(&self, policy: &str, rival: &str) -> String {
        self.lead(policy, rival)
            .map_or("–".to_owned(), |lead| judged(&lead))
    }

    /// Whom LAAU beats, whom not, and about whom nothing can be said.
    fn statement(&self) -> String {
        let mut named: [Vec<String>; 3] = Default::default();
        for rival in RIVALS {
            let Some(lead) = self.lead("laau", rival) else {
                continue;
            };
            let place = match decide(std::slice::from_ref(&lead)) {
                Some(Verdict::Holds) => 0,
                Some(Verdict::DoesNotHold) => 1,
                _ => 2,
            };
            let seeds = match place {
                2 => format!(" ({})", needed(std::slice::from_ref(&lead))),
                _ => String::new(),
            };
            named[place].push(format!("{} by {}{seeds}", policy_name(rival), words("", &lead)));
        }
        if named.iter().all(Vec::is_empty) {
            return "LAAU was not run.".to_owned();
        }
        let begins = ["LAAU is above", "It is below", "Undecided:"];
        let mut sentences: Vec<String> = begins
            .iter()
            .zip(&named)
            .filter(|(_, named)| !named.is_empty())
            .map(|(begin, named)| format!("{begin} {}.", named.join(", ")))
            .collect();
        let violations: usize = self.rows.iter().map(|row| row.violations).sum();
        sentences.push(format!("Violations of a budget by any policy: {violations}."));
        sentences.join(" ")
    }

    /// The lead of every model over every rival.
    fn duels(&self) -> Vec<Vec<String>> {
        let models = MODELS.iter().filter(|model| self.of(model).next().is_some());
        models
            .map(|model| {
                let mut cells = vec![policy_name(model).to_owned()];
                cells.extend(RIVALS.iter().map(|rival| self.duel(model, rival)));
                cells
            })
            .collect()
    }

    /// Who is not for the problem, and why.
    fn left_out(&self) -> Vec<String> {
        let rows =
            (self.all.left_out.iter()).filter(|row| row.problem == self.problem && row.data == self.data);
        rows.map(|row| format!("Left out: {}.", row.reason)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, seed: u64, fraction: f64) -> ProblemRow {
        ProblemRow {
            problem: "wireless".to_owned(),
            data: "workload".to_owned(),
            construction: "consecutive".to_owned(),
            horizon: 20,
            policy: policy.to_owned(),
            seed,
            utility: fraction,
            fraction_of_opt: fraction,
            violations: 0,
            failures: 0,
            projections: 0,
            exact_gradients: (policy == "laau").then_some(10),
            approximate_gradients: (policy == "laau").then_some(1),
        }
    }

    fn problems() -> Problems {
        let budget = |policy: &str, budget, remaining_percent| BudgetRow {
            construction: "consecutive".to_owned(),
            horizon: 20,
            seed: 0,
            problem: "wireless".to_owned(),
            data: "workload".to_owned(),
            policy: policy.to_owned(),
            budget,
            remaining_percent,
        };
        Problems {
            rows: vec![
                row("opt", 0, 1.0),
                row("opt", 1, 1.0),
                row("mw", 0, 0.9),
                row("mw", 1, 0.94),
                row("equal", 0, 0.5),
                row("equal", 1, 0.5),
                row("laau", 0, 0.95),
                row("laau", 1, 0.87),
            ],
            budgets: vec![budget("laau", 0, 1.0), budget("laau", 1, 2.0)],
            left_out: vec![LeftOutRow {
                policy: "dp".to_owned(),
                problem: "wireless".to_owned(),
                data: "workload".to_owned(),
                reason: "policy `dp` is not applicable: expected one action".to_owned(),
            }],
            samples: Samples::default(),
        }
    }

    #[test]
    fn without_single_episodes_nothing_is_claimed() {
        let problems = problems();
        let summary = problems.each().next().unwrap();
        assert_eq!(summary.statement(), "LAAU was not run.");
        assert_eq!(summary.duel("laau", "mw"), "–");
    }

    #[test]
    fn an_undecided_lead_says_how_many_seeds_would_decide_it() {
        let open = judged(&Difference::of_seeds(vec![0.3, -0.1, 0.2, -0.05, 0.15]));
        assert!(
            open.contains("undecided (about ") && open.ends_with(" seeds would decide it)"),
            "{open}"
        );
        assert!(judged(&Difference::of_seeds(vec![1.0, 1.1, 0.9])).ends_with("] holds"));
    }

    #[test]
    fn the_table_names_budgets_and_counts_gradients() {
        let text = problems().markdown();
        for part in [
            "## Wireless rates, workload (N = 20, consecutive steps, 2 seeds)",
            "| policy | utility per step | fraction of OPT | range over seeds | energy left % | spectrum left % | violations |",
            "| LAAU | 0.9100 | 0.9100 | 0.8700 … 0.9500 | 1.00 | 2.00 | 0 | 20 / 2 |",
            "Left out: policy `dp` is not applicable: expected one action.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(Problems::default().markdown(), "");
    }
}
