//! Figure 1: the unrolled pipeline.

use std::path::Path;

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::style::save;

const INK: &str = "#1a1a1a";
const FORWARD: &str = "#0072B2";
const BACKWARD: &str = "#D55E00";

/// Draws three steps of an episode: price, solve, pay; forward and backward.
pub(super) fn draw(folder: &Path) -> anyhow::Result<()> {
    let mut canvas = Canvas(Scene::new(1060.0, 470.0));
    canvas.text(530.0, 32.0, "LAAU, unrolled: price, solve, pay", 20, INK);
    for (column, step) in ["t − 1", "t", "t + 1"].into_iter().enumerate() {
        let x = 80.0 + 320.0 * column as f64;
        canvas.text(x + 110.0, 74.0, &format!("step {step}"), 15, INK);
        canvas.block(
            x,
            95.0,
            "multiplier network",
            "λ = f(b, c, steps left)",
            "#E8F1F8",
        );
        canvas.block(
            x,
            195.0,
            "convex layer",
            "min l(x,c) + λᵀg(x,c), g ≤ b",
            "#FDF0E4",
        );
        canvas.block(x, 295.0, "ledger", "b ← b − g(x,c), exactly", "#E6F4EF");
        canvas.arrow(&[(x + 95.0, 150.0), (x + 95.0, 195.0)], FORWARD, false);
        canvas.text(x + 78.0, 178.0, "λ", 15, FORWARD);
        canvas.arrow(&[(x + 125.0, 195.0), (x + 125.0, 150.0)], BACKWARD, true);
        canvas.arrow(&[(x + 95.0, 250.0), (x + 95.0, 295.0)], FORWARD, false);
        canvas.text(x + 78.0, 278.0, "x", 15, FORWARD);
        canvas.arrow(&[(x + 125.0, 295.0), (x + 125.0, 250.0)], BACKWARD, true);
        // The context comes from outside; the budget goes on to the next step's network and layer.
        canvas.arrow(&[(x - 40.0, 112.0), (x, 112.0)], INK, false);
        canvas.text(x - 48.0, 117.0, "c", 15, INK);
        if column < 2 {
            let next = x + 320.0;
            canvas.arrow(
                &[
                    (x + 220.0, 314.0),
                    (x + 262.0, 314.0),
                    (x + 262.0, 230.0),
                    (next, 230.0),
                ],
                FORWARD,
                false,
            );
            canvas.arrow(
                &[(x + 262.0, 230.0), (x + 262.0, 138.0), (next, 138.0)],
                FORWARD,
                false,
            );
            canvas.text(x + 250.0, 262.0, "b", 15, FORWARD);
            canvas.arrow(
                &[
                    (next, 244.0),
                    (x + 278.0, 244.0),
                    (x + 278.0, 332.0),
                    (x + 220.0, 332.0),
                ],
                BACKWARD,
                true,
            );
        }
    }
    canvas.arrow(&[(250.0, 410.0), (310.0, 410.0)], FORWARD, false);
    canvas.start_text(320.0, 415.0, "decide (Algorithm 1)", FORWARD);
    canvas.arrow(&[(610.0, 410.0), (550.0, 410.0)], BACKWARD, true);
    canvas.start_text(
        620.0,
        415.0,
        "differentiate through the KKT conditions and the budget",
        BACKWARD,
    );
    save(&canvas.0, folder, "architecture")
}

struct Canvas(Scene);

impl Canvas {
    fn block(&mut self, x: f64, y: f64, name: &str, formula: &str, fill: &str) {
        self.0.elements.push(Primitive::Rect {
            x,
            y,
            width: 220.0,
            height: 55.0,
            fill: Color::from(fill),
            stroke: Some(Color::from(INK)),
            stroke_width: Some(1.2),
            opacity: None,
        });
        self.text(x + 110.0, y + 23.0, name, 15, INK);
        self.text(x + 110.0, y + 43.0, formula, 13, INK);
    }

    fn text(&mut self, x: f64, y: f64, content: &str, size: u32, colour: &str) {
        self.push_text(x, y, content, size, TextAnchor::Middle, colour);
    }

    fn start_text(&mut self, x: f64, y: f64, content: &str, colour: &str) {
        self.push_text(x, y, content, 14, TextAnchor::Start, colour);
    }

    fn push_text(&mut self, x: f64, y: f64, content: &str, size: u32, anchor: TextAnchor, colour: &str) {
        self.0.elements.push(Primitive::Text {
            x,
            y,
            content: content.to_owned(),
            size,
            anchor,
            rotate: None,
            bold: false,
            color: Some(Color::from(colour)),
        });
    }

    /// A polyline with a head at its end.
    fn arrow(&mut self, points: &[(f64, f64)], colour: &str, dashed: bool) {
        let line = |points: Vec<(f64, f64)>, dash: Option<&str>| Primitive::PolyLine {
            points,
            stroke: Color::from(colour),
            stroke_width: 2.0,
            stroke_dasharray: dash.map(str::to_owned),
        };
        self.0
            .elements
            .push(line(points.to_vec(), dashed.then_some("5,3")));
        let [.., (x0, y0), (x1, y1)] = points else { return };
        let length = (x1 - x0).hypot(y1 - y0);
        let (dx, dy) = ((x1 - x0) / length * 7.0, (y1 - y0) / length * 7.0);
        let head = vec![
            (x1 - dx - dy * 0.6, y1 - dy + dx * 0.6),
            (*x1, *y1),
            (x1 - dx + dy * 0.6, y1 - dy - dx * 0.6),
        ];
        self.0.elements.push(line(head, None));
    }
}
