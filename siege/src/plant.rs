//! Faults planted into a history: a checker that finds nothing in them would prove nothing.

use anyhow::{Context as _, ensure};

use crate::check::{Kind, check};
use crate::history::{Answered, Asked, Decision, Event, History, Line, Refused};

/// A fault that is planted: its name, what the checker must call it, and how it is done. `None`: nothing in the history to
/// plant it into.
type Plant = (&'static str, Kind, fn(&mut History) -> Option<()>);

const PLANTS: &[Plant] = &[
    ("a line that was acknowledged is lost", Kind::Lost, lose),
    ("a lost line leaves a gap", Kind::Broken, lose),
    (
        "an answer in the log has another byte",
        Kind::Changed,
        change_answer,
    ),
    ("a repeated key gets another answer", Kind::Changed, answer_anew),
    ("the answer to another request", Kind::Changed, mix_up),
    ("one key has two lines", Kind::KeyTwice, repeat_key),
    ("one step is decided twice", Kind::StepTwice, repeat_step),
    (
        "a budget is exceeded by one unit of 2^-1074",
        Kind::Overspent,
        overspend,
    ),
    (
        "a period begins with more than its budget",
        Kind::Overspent,
        enlarge,
    ),
    ("a hold is settled twice", Kind::WronglySettled, settle_twice),
    (
        "a settlement is above its hold",
        Kind::WronglySettled,
        settle_above,
    ),
    ("a request that was refused is in the log", Kind::Refused, refuse),
    ("what remains is off by one bit", Kind::Remaining, round_up),
];

/// Plants every fault into the busiest period of a history that has none; gives how many were found.
pub(crate) fn plant_all(history: &History) -> anyhow::Result<usize> {
    let settlements = |log: &Vec<Line>| {
        log.iter()
            .filter(|line| matches!(line.event, Event::Settled { .. }))
            .count()
    };
    let busiest = history
        .logs
        .iter()
        .max_by_key(|(_, log)| (settlements(log).min(1), log.len()));
    let ((account, period), _) = busiest.context("an empty history")?;
    let sound = history.only(account, *period);
    ensure!(check(&sound).1.is_empty(), "expected a history without faults");
    for (name, kind, plant) in PLANTS {
        let mut faulty = sound.clone();
        plant(&mut faulty).with_context(|| format!("nothing to plant into: {name}"))?;
        let found = check(&faulty).1;
        ensure!(
            found.iter().any(|fault| fault.kind == *kind),
            "the checker missed a planted fault: {name}; it found {found:?}"
        );
    }
    Ok(PLANTS.len())
}

fn log(history: &mut History) -> Option<&mut Vec<Line>> {
    history.logs.values_mut().next()
}

/// The place of the last line of a kind.
fn last(log: &[Line], wanted: fn(&Event) -> bool) -> Option<usize> {
    log.iter().rposition(|line| wanted(&line.event))
}

fn decided(event: &Event) -> bool {
    matches!(event, Event::Decided { .. })
}

fn settled(event: &Event) -> bool {
    matches!(event, Event::Settled { .. })
}

fn lose(history: &mut History) -> Option<()> {
    let key = history
        .answers
        .iter()
        .find(|answer| matches!(answer.asked, Asked::Decide { .. }))?;
    let key = key.key.clone();
    let log = log(history)?;
    let place = log
        .iter()
        .position(|line| line.request.as_ref().is_some_and(|request| request.key == key))?;
    log.remove(place);
    Some(())
}

fn change_answer(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let place = last(log, decided)?;
    log[place].request.as_mut()?.answer.push(' ');
    Some(())
}

fn answer_anew(history: &mut History) -> Option<()> {
    let mut answer = history.answers.first()?.clone();
    answer.body = answer.body.replace("\"step\":", "\"step\":1");
    answer.body.push(' ');
    history.answers.push(answer);
    Some(())
}

fn mix_up(history: &mut History) -> Option<()> {
    let wanted = |answer: &&mut Answered| matches!(answer.asked, Asked::Decide { .. });
    let answer = history.answers.iter_mut().find(wanted)?;
    if let Asked::Decide { context } = &mut answer.asked {
        context[0] = context[0].next_up();
    }
    Some(())
}

fn repeat_key(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let mut line = log[last(log, decided)?].clone();
    line.number = log.len() as u64;
    log.push(line);
    Some(())
}

fn repeat_step(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let mut line = log[last(log, decided)?].clone();
    line.number = log.len() as u64;
    line.request.as_mut()?.key.push('x');
    log.push(line);
    Some(())
}

/// Takes so much off the budget that the last decision is one unit too much. The prefix of the log at its peak counts.
fn overspend(history: &mut History) -> Option<()> {
    let log = log(history)?;
    // The smallest budget that is not exceeded, by bisection on the bits: floats above zero are ordered as they are.
    let Event::Opened { budgets } = log.first()?.event.clone() else {
        return None;
    };
    let (mut low, mut high) = (0_u64, budgets[0].to_bits());
    let period = log.clone();
    let account = history.logs.keys().next()?.clone();
    while high - low > 1 {
        let middle = low.midpoint(high);
        let trial = with_budget(&period, f64::from_bits(middle));
        let trial = History {
            logs: [(account.clone(), trial)].into(),
            ..History::default()
        };
        let over = check(&trial).1.iter().any(|fault| fault.kind == Kind::Overspent);
        *(if over { &mut low } else { &mut high }) = middle;
    }
    let least = with_budget(&period, f64::from_bits(low));
    *history.logs.values_mut().next()? = least;
    Some(())
}

fn with_budget(log: &[Line], budget: f64) -> Vec<Line> {
    let mut log = log.to_vec();
    if let Some(Event::Opened { budgets }) = log.first_mut().map(|line| &mut line.event) {
        budgets[0] = budget;
    }
    log
}

fn enlarge(history: &mut History) -> Option<()> {
    let account = history.logs.keys().next()?.0.clone();
    let terms = history.terms.get_mut(&account)?;
    terms.rollover = false;
    if let Event::Opened { budgets } = &mut log(history)?.first_mut()?.event {
        budgets[0] = budgets[0].next_up();
        let least = budgets[0].next_down();
        history.terms.get_mut(&account)?.budgets[0] = least;
    }
    Some(())
}

fn settle_twice(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let mut line = log[last(log, settled)?].clone();
    line.number = log.len() as u64;
    line.request.as_mut()?.key.push('x');
    log.push(line);
    Some(())
}

fn settle_above(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let place = last(log, settled)?;
    if let Event::Settled { usage, .. } = &mut log[place].event {
        usage[0] = 1e6;
    }
    Some(())
}

fn refuse(history: &mut History) -> Option<()> {
    let answer = history.answers.first()?;
    history.refused.push(Refused {
        account: answer.account.clone(),
        key: answer.key.clone(),
        status: 409,
    });
    Some(())
}

fn round_up(history: &mut History) -> Option<()> {
    let log = log(history)?;
    let place = last(log, decided)?;
    let request = log[place].request.as_mut()?;
    let decision: Decision = serde_json::from_str(&request.answer).ok()?;
    let mut answer: serde_json::Value = serde_json::from_str(&request.answer).ok()?;
    answer["remaining"][0] = decision.remaining[0].next_up().into();
    request.answer = answer.to_string();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Keyed, Terms};

    fn line(number: u64, event: Event, answer: &str) -> Line {
        Line {
            period: 0,
            number,
            event,
            request: Some(Keyed {
                key: format!("key-{number}"),
                status: 200,
                answer: answer.to_owned(),
            }),
        }
    }

    /// Two decisions of 0.1 and 0.2 on a budget of 1; the first is settled with 0.05.
    fn sound() -> History {
        let decision = |number: u64, held: f64, remaining: f64| {
            format!(
                r#"{{"decision":"0-{number}","period":0,"step":{number},"horizon":9,"action":[{held}],"held":[{held}],"remaining":[{remaining}]}}"#
            )
        };
        let decided = |action: f64| Event::Decided {
            context: vec![0.5],
            action: vec![action],
        };
        // 1 − 0.1 and 1 − 0.1 − 0.2 in floats are above the exact remainders, or not: the checker knows.
        let (first, second, third) = (0.9_f64, 0.7_f64, 0.75_f64);
        let fit = |value: f64, used: &[f64]| {
            let exact = crate::exact::units(1.0).unwrap()
                - used
                    .iter()
                    .map(|used| crate::exact::units(*used).unwrap())
                    .sum::<num_bigint::BigInt>();
            [value.next_down(), value, value.next_up()]
                .into_iter()
                .find(|value| crate::exact::is_rounded_down(*value, &exact))
                .unwrap()
        };
        let answers = [
            decision(0, 0.1, fit(first, &[0.1])),
            decision(1, 0.2, fit(second, &[0.1, 0.2])),
            format!(
                r#"{{"decision":"0-0","settled":[0.05],"remaining":[{}]}}"#,
                fit(third, &[0.05, 0.2])
            ),
        ];
        let log = vec![
            Line {
                request: None,
                ..line(0, Event::Opened { budgets: vec![1.0] }, "")
            },
            line(1, decided(0.1), &answers[0]),
            line(2, decided(0.2), &answers[1]),
            line(
                3,
                Event::Settled {
                    hold: 0,
                    usage: vec![0.05],
                },
                &answers[2],
            ),
        ];
        let asked = [
            Asked::Decide { context: vec![0.5] },
            Asked::Decide { context: vec![0.5] },
            Asked::Settle {
                decision: "0-0".to_owned(),
                usage: vec![0.05],
            },
        ];
        let answers = asked
            .into_iter()
            .zip(answers)
            .zip(1..)
            .map(|((asked, body), number)| Answered {
                account: "a".to_owned(),
                key: format!("key-{number}"),
                asked,
                status: 200,
                body,
            });
        History {
            terms: [(
                "a".to_owned(),
                Terms {
                    budgets: vec![1.0],
                    rollover: false,
                },
            )]
            .into(),
            answers: answers.collect(),
            logs: [(("a".to_owned(), 0), log)].into(),
            ..History::default()
        }
    }

    #[test]
    fn a_sound_history_has_no_faults_and_every_planted_one_is_found() {
        let history = sound();
        let (counts, faults) = check(&history);
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!((counts.decisions, counts.settlements, counts.answers), (2, 1, 3));
        assert_eq!(plant_all(&history).unwrap(), PLANTS.len());
    }

    #[test]
    fn a_line_that_changes_between_two_readings_is_a_fault() {
        let mut history = sound();
        let mut lines = history.logs.values().next().unwrap().clone();
        lines[2].event = Event::Skipped { steps: 1 };
        history.read("a", 0, 2, lines[2..].to_vec());
        assert!(check(&history).1.iter().any(|fault| fault.kind == Kind::Broken));
    }
}
