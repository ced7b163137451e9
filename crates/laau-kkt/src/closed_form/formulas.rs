//! One sample: its action and its derivatives, free of branches so that loops over them vectorise.

/// The action without bounds: infinite where only the price is zero, NaN where the weight is zero, too.
#[inline]
pub(super) fn target(c: f64, multiplier: f64) -> f64 {
    // A price of −0 is a price of 0.
    c / (multiplier + 0.0)
}

/// Intermediates shared by value and derivative.
struct Start {
    /// The action without bounds.
    z: f64,
    /// Whether it is not below the box; NaN is below.
    above_lower: bool,
    budget_binds: bool,
    /// The lower of the two upper limits.
    limit: f64,
    finite: bool,
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "no branches, so that loops vectorise"
)]
#[inline]
fn start(lower: f64, upper: f64, c: f64, multiplier: f64, remaining: f64) -> Start {
    let budget_binds = remaining <= upper;
    let z = target(c, multiplier);
    Start {
        z,
        above_lower: z >= lower,
        budget_binds,
        limit: if budget_binds { remaining } else { upper },
        finite: (c < f64::INFINITY) & (multiplier < f64::INFINITY) & (remaining < f64::INFINITY),
    }
}

/// One sample's answer, free of branches so that loops over it vectorise.
pub(super) struct Sample {
    pub(super) action: f64,
    pub(super) dual: f64,
    pub(super) lower_dual: f64,
    pub(super) upper_dual: f64,
    pub(super) regular: bool,
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "no branches, so that loops vectorise"
)]
#[inline]
pub(super) fn forward(lower: f64, upper: f64, c: f64, multiplier: f64, remaining: f64) -> Sample {
    let Start {
        z,
        above_lower,
        budget_binds,
        limit,
        finite,
    } = start(lower, upper, c, multiplier, remaining);
    let below = !above_lower;
    let above = z > limit;
    let action = if below {
        lower
    } else if above {
        limit
    } else {
        z
    };
    // Stationarity: −c/x + λ + μ − ν_lower + ν_upper = 0.
    let pull = c / action - multiplier;
    let up = if above & (pull > 0.0) { pull } else { 0.0 };
    Sample {
        action,
        dual: if budget_binds { up } else { 0.0 },
        lower_dual: if below & (pull < 0.0) { -pull } else { 0.0 },
        upper_dual: if budget_binds { 0.0 } else { up },
        regular: finite & (c >= 0.0) & (multiplier >= 0.0) & (remaining >= lower),
    }
}

/// The derivatives of one sample's action, free of branches.
pub(super) struct Derivative {
    pub(super) multiplier: f64,
    pub(super) remaining: f64,
    pub(super) context: f64,
    pub(super) regular: bool,
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "no branches, so that loops vectorise"
)]
#[inline]
pub(super) fn backward(lower: f64, upper: f64, c: f64, multiplier: f64, remaining: f64) -> Derivative {
    let Start {
        z,
        above_lower,
        budget_binds,
        limit,
        finite,
    } = start(lower, upper, c, multiplier, remaining);
    let inverse = 1.0 / multiplier;
    let free = above_lower & (z <= limit);
    Derivative {
        multiplier: if free { -z * inverse } else { 0.0 },
        remaining: if budget_binds & (z > limit) { 1.0 } else { 0.0 },
        context: if free { inverse } else { 0.0 },
        // Off every kink: `z` strictly between, above or below the bounds, and the bounds apart.
        regular: finite
            & (z != lower)
            & (z != limit)
            & (remaining != upper)
            & (c >= 0.0)
            & (multiplier >= 0.0)
            & (remaining > lower)
            & ((multiplier > 0.0) | (c > 0.0)),
    }
}
