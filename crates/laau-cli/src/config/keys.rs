//! Every key of the configuration: its flag, its default, its words. Files, flags and documentation are made from this.

use toml::{Table, Value};

/// A section of the configuration.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) keys: &'static [Key],
}

/// A key of a section.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) flag: &'static str,
    /// A value in TOML: the default, or an example for a key that is not set by default.
    pub(super) example: &'static str,
    pub(super) is_set_by_default: bool,
    pub(super) help: &'static str,
}

/// A key with a default.
const fn set(name: &'static str, flag: &'static str, example: &'static str, help: &'static str) -> Key {
    Key {
        name,
        flag,
        example,
        is_set_by_default: true,
        help,
    }
}

/// A key without one.
const fn unset(name: &'static str, flag: &'static str, example: &'static str, help: &'static str) -> Key {
    Key {
        is_set_by_default: false,
        ..set(name, flag, example, help)
    }
}

impl Key {
    /// Reads the value of a flag: as TOML, where quotes and brackets may be left out.
    pub(super) fn parse(&self, text: &str) -> Result<Value, String> {
        let toml = match self.example.as_bytes().first() {
            Some(b'"') if !text.starts_with('"') => return Ok(Value::String(text.to_owned())),
            Some(b'[') if !text.starts_with('[') && self.example.starts_with("[\"") => {
                let names = text.split(',').map(|name| Value::String(name.trim().to_owned()));
                return Ok(Value::Array(names.collect()));
            }
            // Rows: `50:0.005,30:0.0025` is [[50, 0.005], [30, 0.0025]].
            Some(b'[') if !text.starts_with('[') && self.example.starts_with("[[") => {
                let rows: Vec<String> = text
                    .split(',')
                    .map(|row| format!("[{}]", row.replace(':', ", ")))
                    .collect();
                format!("[{}]", rows.join(", "))
            }
            Some(b'[') if !text.starts_with('[') => format!("[{text}]"),
            _ => text.to_owned(),
        };
        let mut table: Table = format!("value = {toml}")
            .parse()
            .map_err(|_| format!("expected something like {}", self.flag_example()))?;
        let value = table
            .remove("value")
            .filter(|_| table.is_empty())
            .ok_or_else(|| "expected one value".to_owned())?;
        // A whole number is a number, too.
        Ok(match value {
            Value::Integer(whole)
                if self.example.parse::<f64>().is_ok() && self.example.contains(['.', 'e']) =>
            {
                Value::Float(whole as f64)
            }
            other => other,
        })
    }

    /// The example as one would type it after the flag.
    pub(super) fn flag_example(&self) -> String {
        let bare = self.example.trim_matches('"');
        if let Some(rows) = bare.strip_prefix("[[").and_then(|rows| rows.strip_suffix("]]")) {
            return rows.replace("], [", ";").replace(", ", ":").replace(';', ",");
        }
        match bare.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            Some(list) if !list.is_empty() && !list.contains(['[', '{']) => list.replace(['"', ' '], ""),
            _ => bare.to_owned(),
        }
    }
}

/// All sections, in the order in which they are printed.
pub(super) const SECTIONS: &[Section] = &[
    PROBLEM,
    MODEL,
    TRAINING,
    LEARNING,
    WORKLOAD,
    EPISODES,
    AZURE_VM,
    AZURE_FUNCTIONS,
    TABLE,
];

const PROBLEM: Section = Section {
    name: "problem",
    help: "What is decided at each step, and in which box. Keys that are not set are as the problem's name promises.",
    keys: &[
        set(
            "name",
            "problem",
            "\"weighted-fairness\"",
            "weighted-fairness, log-utility, vm-allocation, wireless, trading or power",
        ),
        unset("lower", "lower", "1.0", "the least action"),
        unset("upper", "upper", "40.0", "the greatest action"),
        unset(
            "actions",
            "actions",
            "2",
            "number of actions of log-utility, vm-allocation and wireless",
        ),
        unset(
            "usage",
            "usage",
            "[[1.0, 1.0]]",
            "usage of each budget (row) by each action (column) in log-utility",
        ),
        unset("alpha", "alpha", "2.0", "fairness of vm-allocation"),
        unset("impact", "impact", "0.05", "market impact of trading"),
        unset(
            "bandwidth",
            "bandwidth",
            "1.0",
            "bandwidth of a channel of wireless",
        ),
        unset(
            "energy",
            "energy",
            "[1.0, 0.8]",
            "energy per unit of each load of power",
        ),
        unset("most-load", "most-load", "1.0", "the greatest load of power"),
        unset(
            "most-intensity",
            "most-intensity",
            "1.0",
            "the greatest carbon intensity of power",
        ),
    ],
};

const MODEL: Section = Section {
    name: "model",
    help: "The network that prices the budgets, for `laau train` and `laau learn`.",
    keys: &[
        set(
            "network",
            "network",
            "\"mlp\"",
            "mlp: layers of rectified linear units; linear: none",
        ),
        set(
            "hidden",
            "hidden",
            "[10, 10]",
            "the width of each hidden layer of an mlp",
        ),
        set(
            "form",
            "form",
            "\"plain\"",
            "plain: the price is the network's; residual: times that of a certain future",
        ),
        unset(
            "features",
            "features",
            "\"history\"",
            "what the network sees: paper or history; if not given paper, for the residual form history",
        ),
        unset(
            "output",
            "output-function",
            "\"exp\"",
            "how its output becomes a price: softplus or exp; if not given softplus, for the residual form exp",
        ),
        unset(
            "spectral-bound",
            "spectral-bound",
            "2.0",
            "the largest spectral norm of a layer of an mlp",
        ),
        unset(
            "norm-bound",
            "norm-bound",
            "10.0",
            "the largest norm of the weights of a linear network",
        ),
    ],
};

const TRAINING: Section = Section {
    name: "training",
    help: "Offline training, for `laau train` and `laau compare`.",
    keys: &[
        set(
            "phases",
            "phases",
            "[[50, 0.005], [30, 0.0025]]",
            "epochs and learning rate of each phase, one after the other",
        ),
        set("batch", "batch", "10", "episodes per gradient step"),
        set("seed", "seed", "0", "the seed of initial weights and shuffles"),
        set("optimiser", "optimiser", "\"adam\"", "adam or sgd"),
        set(
            "first-decay",
            "first-decay",
            "0.9",
            "Adam's decay of the mean of gradients",
        ),
        set(
            "second-decay",
            "second-decay",
            "0.999",
            "Adam's decay of the mean of squared gradients",
        ),
        set(
            "epsilon",
            "epsilon",
            "1e-8",
            "what Adam adds to the root of that mean",
        ),
        set(
            "engine",
            "engine",
            "\"fused\"",
            "who computes gradients: fused or candle",
        ),
        set(
            "validate-every",
            "validate-every",
            "1",
            "epochs from one rollout of the validation episodes to the next",
        ),
        unset(
            "patience",
            "patience",
            "20",
            "stop after so many validations without a better utility",
        ),
        unset(
            "gradient-clip",
            "gradient-clip",
            "10.0",
            "the largest norm of a gradient",
        ),
        set(
            "divergence_factor",
            "divergence_factor",
            "100.0",
            "how far a loss may rise above the first one, relative to it, before the run has diverged",
        ),
        set(
            "checkpoint-every",
            "checkpoint-every",
            "10",
            "epochs from one checkpoint to the next",
        ),
    ],
};

const LEARNING: Section = Section {
    name: "learning",
    help: "Online training, for `laau learn`.",
    keys: &[
        set("optimiser", "optimiser", "\"sgd\"", "sgd or adam"),
        set("learning-rate", "learning-rate", "0.05", "the step size"),
        set(
            "engine",
            "engine",
            "\"fused\"",
            "who computes gradients: fused or candle",
        ),
        set(
            "gradient-clip",
            "gradient-clip",
            "10.0",
            "the largest norm of a gradient",
        ),
        set("seed", "seed", "0", "the seed of a cold model's weights"),
        set(
            "first-look",
            "first-look",
            "10",
            "episodes that normalise a cold model: all that is known before its first step",
        ),
    ],
};

const WORKLOAD: Section = Section {
    name: "workload",
    help: "The synthetic workload of a problem, for `laau generate`.",
    keys: &[
        set("horizon", "horizon", "20", "steps of an episode"),
        set("episodes", "episodes", "5000", "number of episodes"),
        unset(
            "split",
            "split",
            "[5000, 1000, 2000]",
            "episodes for training, validation and test instead; the output is then a folder",
        ),
        unset(
            "budget",
            "budget",
            "[10.0, 15.0]",
            "the least and the greatest budget of a step, times the horizon, or one such pair per budget; the problem's own if not given",
        ),
        set("seed", "seed", "0", "the seed of machines, readings and budgets"),
        set(
            "construction",
            "construction",
            "\"consecutive\"",
            "consecutive: steps of one machine (user, market, site); interleaved: each step another",
        ),
        set(
            "part",
            "part",
            "\"train\"",
            "train, validation or test: parts share no machine",
        ),
        set(
            "episodes-per-vm",
            "episodes-per-vm",
            "1",
            "episodes' worth of steps from each machine, user, market or site",
        ),
        unset(
            "scale",
            "scale",
            "2.8",
            "factor on every reading of weighted-fairness, log-utility and vm-allocation; 2.8 if not given",
        ),
    ],
};

const EPISODES: Section = Section {
    name: "episodes",
    help: "How `laau import` makes episodes of a trace.",
    keys: &[
        set("horizon", "horizon", "20", "steps of an episode"),
        unset(
            "stride",
            "stride",
            "20",
            "readings from one window's start to the next; the horizon if not given",
        ),
        set(
            "construction",
            "construction",
            "\"consecutive\"",
            "consecutive: readings of one series; interleaved: each step another series",
        ),
        set(
            "normalisation",
            "normalisation",
            "\"percent\"",
            "how readings become contexts: percent, series-max, min-max or none",
        ),
        set(
            "out-of-range",
            "out-of-range",
            "\"error\"",
            "what becomes of a reading outside the range of the normalisation: error or clamp",
        ),
        set(
            "floor",
            "floor",
            "0.0",
            "the least context; smaller ones are raised to it",
        ),
        set(
            "budgets",
            "budgets",
            "[[10.0, 15.0]]",
            "per resource the least and the greatest budget of a step, times the horizon",
        ),
        set(
            "split",
            "split",
            "[5000, 1000, 2000]",
            "episodes for training, validation and test",
        ),
        set("seed", "seed", "0", "the seed of every draw"),
    ],
};

const AZURE_VM: Section = Section {
    name: "azure-vm",
    help: "What `laau import azure-vm` takes of the trace.",
    keys: &[
        set(
            "reading",
            "reading",
            "\"average\"",
            "the CPU reading that is the context: minimum, maximum or average",
        ),
        set(
            "irregular",
            "irregular",
            "\"gap\"",
            "what a distance in time that is no multiple of 300 s means: error or gap",
        ),
        unset(
            "vm-table",
            "vm-table",
            "\"vmtable.csv.gz\"",
            "the table of machines, to choose by",
        ),
        unset(
            "categories",
            "categories",
            "[\"Interactive\"]",
            "take machines of these categories",
        ),
        unset(
            "cores",
            "cores",
            "[1.0, 8.0]",
            "take machines with cores in this range",
        ),
        unset(
            "memory",
            "memory",
            "[1.0, 64.0]",
            "take machines with memory in this range, in GB",
        ),
        unset(
            "properties",
            "properties",
            "[\"cores\"]",
            "properties that each context gets: cores, memory",
        ),
    ],
};

const AZURE_FUNCTIONS: Section = Section {
    name: "azure-functions",
    help: "What `laau import azure-functions` takes of the trace.",
    keys: &[
        unset(
            "durations",
            "durations",
            "[\"function_durations_percentiles.anon.d*.csv\"]",
            "each context gets the function's mean duration",
        ),
        unset(
            "app-memory",
            "app-memory",
            "[\"app_memory_percentiles.anon.d*.csv\"]",
            "each context gets the app's mean memory",
        ),
    ],
};

const TABLE: Section = Section {
    name: "table",
    help: "What the columns of a table mean, for `laau import table` and `laau inspect`.",
    keys: &[
        set(
            "header",
            "header",
            "true",
            "whether CSV files begin with a header; without one, columns are 1, 2, …",
        ),
        set(
            "series",
            "series",
            "\"series\"",
            "the column that names the series",
        ),
        set("time", "time", "\"time\"", "the column of times, whole numbers"),
        set("values", "values", "[\"value\"]", "the columns of values"),
        unset(
            "step",
            "step",
            "300",
            "distance in time of two readings of a series; the first one seen if not given",
        ),
        set(
            "irregular-times",
            "irregular-times",
            "\"error\"",
            "what a distance that is no multiple of a given step means: error or gap",
        ),
        set(
            "sort",
            "sort",
            "false",
            "sort by time in memory, for tables in another order",
        ),
    ],
};
