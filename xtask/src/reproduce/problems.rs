//! The other problems: one table each, and whether LAAU beats the simple policies there.

use std::fmt::Write as _;
use std::path::Path;

use laau_core::tables::{BudgetRow, LeftOutRow, ProblemRow};
use maud::{Markup, html};

use crate::figures::problems::names;
use crate::figures::style::policy_name;
use crate::figures::tables::{self, Spread, distinct};

/// The policies that LAAU is held against on every problem; `equal` is the static split.
const RIVALS: &[&str] = &["dgd", "mw", "avg-lt", "equal"];

/// The models that are held against them.
const MODELS: &[&str] = &["laau", "laau-history", "laau-residual"];

/// All that was measured on the other problems.
#[derive(Debug, Default)]
pub(super) struct Problems {
    rows: Vec<ProblemRow>,
    budgets: Vec<BudgetRow>,
    left_out: Vec<LeftOutRow>,
}

impl Problems {
    /// Reads the tables of a reproduction; there may be none.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            rows: tables::read(folder)?,
            budgets: tables::read(folder)?,
            left_out: tables::read(folder)?,
        })
    }

    fn each(&self) -> impl Iterator<Item = Summary<'_>> {
        distinct(&self.rows, |row| row.problem.clone())
            .into_iter()
            .map(|problem| Summary {
                rows: self.rows.iter().filter(|row| row.problem == problem).collect(),
                all: self,
                problem,
            })
    }

    /// The section of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            @if !self.rows.is_empty() {
                h2 id="problems" { "Other problems" }
                p {
                    "Several actions, several budgets, usage that is not linear. Mean over seeds; LAAU beats a rival if its mean "
                    "fraction of OPT is higher. Differences are in points (hundredths of OPT), with their range over seeds."
                }
            }
            @for summary in self.each() {
                h3 id=(format!("problem-{}", summary.problem)) { (summary.title()) }
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

/// One problem.
struct Summary<'a> {
    problem: String,
    rows: Vec<&'a ProblemRow>,
    all: &'a Problems,
}

impl Summary<'_> {
    fn title(&self) -> String {
        let title = names(&self.problem).map_or(self.problem.as_str(), |names| names.title);
        let first = self.rows[0];
        let seeds = distinct(&self.rows, |row| row.seed).len();
        format!(
            "{title} (N = {}, {} steps, {seeds} seeds)",
            first.horizon, first.construction
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
            .filter(|row| row.problem == self.problem)
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
                        row.problem == self.problem && row.policy == *policy && row.budget == budget
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

    /// The lead of one policy over another in points of OPT, seed by seed.
    fn lead(&self, policy: &str, rival: &str) -> Option<(Spread, usize, usize)> {
        let leads: Vec<f64> = self
            .of(policy)
            .filter_map(|own| {
                let theirs = self.of(rival).find(|row| row.seed == own.seed)?;
                Some(100.0 * (own.fraction_of_opt - theirs.fraction_of_opt))
            })
            .collect();
        let ahead = leads.iter().filter(|lead| **lead > 0.0).count();
        Some((Spread::of(leads.iter().copied())?, ahead, leads.len()))
    }

    /// Whom LAAU beats, and by how much it does not beat the others.
    fn statement(&self) -> String {
        let mut sentences = Vec::new();
        let (mut beaten, mut not) = (Vec::new(), Vec::new());
        for rival in RIVALS {
            let Some((lead, ahead, seeds)) = self.lead("laau", rival) else {
                continue;
            };
            let name = policy_name(rival);
            let range = format!("{:+.2} … {:+.2}, {ahead} of {seeds} seeds", lead.least, lead.most);
            if lead.mean > 0.0 {
                beaten.push(format!("{name} by {:.2} ({range})", lead.mean));
            } else {
                not.push(format!("{name}: it is {:.2} below ({range})", -lead.mean));
            }
        }
        if beaten.is_empty() && not.is_empty() {
            return "LAAU was not run.".to_owned();
        }
        if !beaten.is_empty() {
            sentences.push(format!("LAAU beats {}.", beaten.join(", ")));
        }
        if !not.is_empty() {
            sentences.push(format!("It does not beat {}.", not.join(", ")));
        }
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
                cells.extend(RIVALS.iter().map(|rival| {
                    self.lead(model, rival)
                        .map_or("–".to_owned(), |(lead, ahead, seeds)| {
                            format!(
                                "{:+.2} ({:+.2} … {:+.2}, {ahead} of {seeds})",
                                lead.mean, lead.least, lead.most
                            )
                        })
                }));
                cells
            })
            .collect()
    }

    /// Who is not for the problem, and why.
    fn left_out(&self) -> Vec<String> {
        let rows = self.all.left_out.iter().filter(|row| row.problem == self.problem);
        rows.map(|row| format!("Left out: {}.", row.reason)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, seed: u64, fraction: f64) -> ProblemRow {
        ProblemRow {
            problem: "wireless".to_owned(),
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
                reason: "policy `dp` is not applicable: expected one action".to_owned(),
            }],
        }
    }

    #[test]
    fn a_rival_that_is_not_beaten_is_told_with_the_distance() {
        let problems = problems();
        let summary = problems.each().next().unwrap();
        assert_eq!(
            summary.statement(),
            "LAAU beats Equal by 41.00 (+37.00 … +45.00, 2 of 2 seeds). It does not beat MW: it is 1.00 below (-7.00 … +5.00, \
             1 of 2 seeds). Violations of a budget by any policy: 0."
        );
    }

    #[test]
    fn the_table_names_budgets_and_counts_gradients() {
        let text = problems().markdown();
        for part in [
            "## Wireless rates (N = 20, consecutive steps, 2 seeds)",
            "| policy | utility per step | fraction of OPT | range over seeds | energy left % | spectrum left % | violations |",
            "| LAAU | 0.9100 | 0.9100 | 0.8700 … 0.9500 | 1.00 | 2.00 | 0 | 20 / 2 |",
            "Left out: policy `dp` is not applicable: expected one action.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(Problems::default().markdown(), "");
    }
}
