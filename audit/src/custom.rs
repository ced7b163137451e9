//! Problems as a user would write them: two functions in any number, derivatives by [`laau_core::AutoDiff`].

use laau_core::{Dimensions, Error, Number, ProblemFunctions, Structure};

/// Which of the user-written problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Cost `Σ ½ w x² − c x + ½ κ (Σ √w x)²`, usage `A x`: a dense Hessian unless `κ = 0`.
    Quadratic,
    /// Cost `Σ w exp(−c x / upper)`, usage `½ (1 + k) A x²`, where the last entry of the context is `k ≤ 1`.
    Exponential,
    /// Cost `Σ w s ln(1 + exp((c − x)/s)) + ½ 10⁻⁴ (w/s) x²` with `s` a tenth of the box, usage `A x`.
    Softplus,
    /// Cost `Σ ½ w x² − c x`, usage `A (x − t)²` with `t` at 0.3 of the box: it falls before it rises.
    Valley,
}

/// A user-written problem of `d` actions and `M` budgets.
#[derive(Debug, Clone, PartialEq)]
pub struct Custom {
    /// Which cost and usage.
    pub form: Form,
    /// Number of budgets.
    pub budgets: usize,
    /// Lower bounds.
    pub lower: Vec<f64>,
    /// Upper bounds.
    pub upper: Vec<f64>,
    /// The matrix `A ≥ 0`, row-major.
    pub matrix: Vec<f64>,
    /// The weights `w > 0`.
    pub weights: Vec<f64>,
    /// The coupling `κ ≥ 0`.
    pub coupling: f64,
}

impl Custom {
    /// The width of the softplus of an action.
    fn softness(&self, i: usize) -> f64 {
        let width = (self.upper[i] - self.lower[i]).max(1e-3 * self.upper[i].abs());
        if width > 0.0 { 0.1 * width } else { 1.0 }
    }

    /// The unit of an action in the exponent.
    fn unit(&self, i: usize) -> f64 {
        if self.upper[i] > 0.0 { self.upper[i] } else { 1.0 }
    }

    /// Where an action of the valley uses nothing.
    fn bottom(&self, i: usize) -> f64 {
        self.lower[i] + 0.3 * (self.upper[i] - self.lower[i])
    }
}

impl ProblemFunctions for Custom {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Quadratic => "quadratic",
            Form::Exponential => "exponential",
            Form::Softplus => "softplus",
            Form::Valley => "valley",
        }
    }

    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: self.budgets,
            context: d + usize::from(self.form == Form::Exponential),
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        let mut sum = T::from(0.0);
        let mut total = T::from(0.0);
        for (i, (&x, &c)) in action.iter().zip(context).enumerate() {
            let w = self.weights[i];
            sum += match self.form {
                Form::Quadratic | Form::Valley => (x * (0.5 * w) - c) * x,
                Form::Exponential => (-(c * x) / self.unit(i)).exp() * w,
                Form::Softplus => {
                    let s = self.softness(i);
                    let t = (c - x) / s;
                    let soft = if t.re() > 0.0 {
                        t + (-t).exp().ln_1p()
                    } else {
                        t.exp().ln_1p()
                    };
                    soft * (w * s) + x * x * (0.5e-4 * w / s)
                }
            };
            total += x * w.sqrt();
        }
        if self.form == Form::Quadratic && self.coupling > 0.0 {
            sum += total * total * (0.5 * self.coupling);
        }
        sum
    }

    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]) {
        let d = action.len();
        for (row, out) in self.matrix.chunks_exact(d).zip(out) {
            let mut sum = T::from(0.0);
            for (i, (&x, &a)) in action.iter().zip(row).enumerate() {
                sum += match self.form {
                    Form::Quadratic | Form::Softplus => x * a,
                    Form::Exponential => x * x * (0.5 * a),
                    Form::Valley => (x - self.bottom(i)) * (x - self.bottom(i)) * a,
                };
            }
            if self.form == Form::Exponential {
                sum *= context[d] + 1.0;
            }
            *out = sum;
        }
    }

    fn least_usage(&self, out: &mut [f64]) {
        let mut context = vec![0.0; self.dimensions().context];
        if self.form == Form::Exponential {
            context[self.lower.len()] = 1.0;
        }
        self.usage(&self.lower, &context, out);
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        let outside = |index: usize, expected| Error::OutsideDomain {
            what: "context",
            index,
            value: context[index],
            expected,
        };
        if let Some(index) = context.iter().position(|c| *c < 0.0) {
            return Err(outside(index, "a non-negative value"));
        }
        let d = self.lower.len();
        if self.form == Form::Exponential && context[d] > 1.0 {
            return Err(outside(d, "a value of at most 1"));
        }
        Ok(())
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: self.form != Form::Quadratic || self.coupling == 0.0,
            affine_usage: matches!(self.form, Form::Quadratic | Form::Softplus),
        }
    }
}
